"""Sharded models on this machine's GPUs equal the plain run on a CPU.

Skipped where there is none. `python -m tests.gpu.run` does the same, and writes
a record.
"""

from tests.gpu import cases as cases_lib
from tests.gpu import trial

from absl.testing import absltest, parameterized


class GpuTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    if not trial.num_cards():
      raise absltest.unittest.SkipTest(
        "no GPU: TensorFlow sees none on this machine"
      )
    folder = absltest.get_default_test_tmpdir()
    cls.try_one = trial.Tryer(folder, "GPU")

  @parameterized.named_parameters((name, name) for name in cases_lib.CASES)
  def test_equals_the_plain_run(self, name):
    done = self.try_one(name, cases_lib.CASES[name])
    if done.result == "left out":
      self.skipTest(done.reason)
    self.assertEqual(done.result, "equal", done.reason)


if __name__ == "__main__":
  absltest.main()
