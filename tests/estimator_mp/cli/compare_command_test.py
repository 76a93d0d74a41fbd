"""The compare command: its output, its exit codes, its errors."""

from estimator_mp.cli import compare_flags
from tests import tiers
from tests.estimator_mp.cli import command_runs, user_programs

from absl.testing import absltest

_THEIRS = (
  "--model_fn=their_program:model_fn",
  "--input_fn=their_program:input_fn",
  "--mesh=data:2,stage:2",
)


_EIGHT = '--params={"batch_size": 8}'


def run_main(*arguments):
  """Returns the exit code, standard output and standard error."""
  return command_runs.run(compare_flags.COMMAND.main, *arguments)


class CommandTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    folder = user_programs.working_directory(self)
    (folder / "their_program.py").write_text(user_programs.MODULE)

  def test_a_program_of_this_directory(self):
    code, output, errors = run_main(
      *_THEIRS, _EIGHT, "--num_micro_batches=2", "--steps=2"
    )
    self.assertEqual((code, errors), (0, ""))
    first, *lines = output.splitlines()
    self.assertEqual(
      first,
      "plain and sharded on data:2,stage:2 with 2 micro-batch(es), from initial"
      " values, on the same 2 batch(es)",
    )
    self.assertRegex(
      lines[1],
      "^step  plain loss +sharded +differs by  gradient norm +sharded +differs"
      " by  variables differ by  most of all$",
    )
    self.assertRegex(
      lines[-1],
      r"^equal: losses, gradient norms and 15 variables of 2 step\(s\), to \S+ "
      r"\(tolerance 1e-05\)$",
    )

  @tiers.slow
  def test_what_parts(self):
    params = '--params={"batch_size": 8, "rate": 0.5}'
    once = [*_THEIRS[:2], params, "--steps=1"]
    parted = [*once, "--mesh=stage:2", "--transfer_dtype=float16"]
    code, output, errors = run_main(*parted)
    self.assertEqual((code, errors), (1, ""))
    self.assertRegex(
      output.splitlines()[-1],
      r"^not equal: from step 1 on they differ, by \S+ \(tolerance 1e-05\); "
      r"transfer_dtype='float16' .* use transfer_dtype=\"float32\"$",
    )
    code, _, _ = run_main(*parted, "--tolerance=0.1")
    self.assertEqual(code, 0)
    # Dropout draws what the plain model does, whatever the mesh is.
    for mesh in ("data:2,stage:2", "model:2"):
      code, _, _ = run_main(*once, f"--mesh={mesh}")
      self.assertEqual(code, 0)

  @tiers.slow
  def test_a_model_of_this_project(self):
    code, output, errors = run_main(
      "--steps=1", "--num_micro_batches=4", "--restart_each_step"
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertIn("hidden1/kernel/Adam_1", output)

  def test_a_dataset_that_raises(self):
    arguments = [
      *_THEIRS,
      "--input_fn=their_program:broken_data",
      "--mesh=stage:2",
    ]
    expected = (
      "compare: reading the input failed: OSError: the camera is off "
      r"\(.*their_program\.py, line \d+\); fix input_fn, or the data\n$"
    )
    code, _, errors = run_main(*arguments, "--params={}")
    self.assertEqual(code, 1)
    self.assertRegex(errors, f"^{expected}")
    _, _, errors = run_main(*arguments, "--params={}", "--debug")
    self.assertRegex(errors, rf"^Traceback \(most recent [\s\S]*\n{expected}")


if __name__ == "__main__":
  absltest.main()
