"""Commands answer at once: flags are checked before TensorFlow is imported."""

import os
import subprocess
import sys

import estimator_mp
from estimator_mp.cli import main
from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

_COMMANDS = ("compare", "plan", "trace", "train")
# What a process runs: a command, as pip's script or `python -m` start it. At
# the end it says what it imported that is neither Python's nor ours, and what
# takes longest of Python's.
_SAY_IMPORTED = """
import atexit, sys
def say_imported():
  found = {{name.partition(".")[0] for name in sys.modules}}
  ours = {{"__main__", "__mp_main__", "compat", "estimator_mp", "model_fns"}}
  found -= ours | begun | sys.stdlib_module_names
  found |= {{"importlib.metadata", "multiprocessing"}} & set(sys.modules)
  print("imported:", *sorted(found))
begun = {{name.partition(".")[0] for name in sys.modules}}
atexit.register(say_imported)
"""
_AS_MODULE = (
  _SAY_IMPORTED
  + """
import runpy
sys.argv[1:] = {arguments!r}
runpy.run_module("estimator_mp", run_name="__main__", alter_sys=True)
"""
)
_AS_SCRIPT = (
  _SAY_IMPORTED
  + """
sys.argv[:] = ["estimator-mp", *{arguments!r}]
from estimator_mp.cli.main import run
run()
"""
)
# Nothing that takes long to import.
_IMPORTED = "imported: absl"

# A program of a user's; it prints what sharding a model_fn warns of.
_PROGRAM = """
import estimator_mp
from tests.estimator_mp.models import networks
import tensorflow as tf

v1 = tf.compat.v1
heard = []


def hear(record):
  if record.levelno >= 30:
    heard.append(record.getMessage())


def model_fn(features, labels, mode):
  optimizer = v1.train.AdamOptimizer(0.1)
  train = networks.minimize(optimizer)
  return networks.spec(mode, networks.net(features), labels, train)


config = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
run_config = estimator_mp.run_config(config)
sharded = estimator_mp.shard_model_fn(model_fn, config)
with tf.Graph().as_default():
  v1.train.create_global_step()
  x, y = (v1.placeholder(tf.float32, [None, n]) for n in (3, 1))
  tf.get_logger().addFilter(hear)
  sharded(x, y, mode="train", config=run_config)
print(heard)
"""


def _environment():
  """What a user who has set nothing gets."""
  return processes.environment(TF_CPP_MIN_LOG_LEVEL=None)


def _run(program: str, *arguments: str):
  """Returns the exit status of a process, its output and its errors."""
  code = program.format(arguments=list(arguments))
  done = processes.run("-c", code, env=_environment())
  return done.returncode, done.stdout, done.stderr


class CommandStartTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("script", "train", _AS_SCRIPT),
    *((command, command, _AS_MODULE) for command in main.COMMANDS),
  )
  def test_help(self, command, program):
    code, output, errors = _run(program, command, "--help")
    self.assertEqual((code, errors), (0, ""))
    usage = f"\nusage: estimator-mp {command} [--flag=value ...]"
    self.assertIn(usage, output)
    self.assertIn("--debug", output)
    self.assertEqual(output.splitlines()[-1], _IMPORTED)

  def test_help_of_all(self):
    code, output, errors = _run(_AS_SCRIPT, "--help")
    self.assertEqual((code, errors), (0, ""))
    for command in main.COMMANDS:
      self.assertRegex(output, rf"(?m)^  {command} +[a-z].*[^.]$")
    self.assertEqual(output.splitlines()[-1], _IMPORTED)

  def test_version(self):
    code, output, errors = _run(_AS_SCRIPT, "--version")
    self.assertEqual((code, errors), (0, ""))
    self.assertRegex(
      output,
      rf"^estimator-mp {estimator_mp.__version__} \(tensorflow\S* 2\.\S+, "
      r"Python 3\.\d+\.\d+\)\n",
    )

  @parameterized.named_parameters(
    ("nothing", (), "", 2),
    ("unknown", ("trian",), "trian is not a command; did you mean train? ", 2),
    ("far", ("x",), "x is not a command; --help lists the commands", 2),
  )
  def test_no_command(self, arguments, expected, exit_code):
    code, _, errors = _run(_AS_SCRIPT, *arguments)
    self.assertEqual(code, exit_code)
    self.assertStartsWith(errors, expected and f"estimator-mp: {expected}")

  def test_nobody_reads_the_output(self):
    """As in `estimator-mp train --help | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
      [sys.executable, "-m", "estimator_mp", "train", "--help"],
      env=_environment(),
      stdout=writing,
      stderr=subprocess.PIPE,
      text=True,
      check=False,
    )
    os.close(writing)
    self.assertEqual((done.returncode, done.stderr), (141, ""))

  @parameterized.parameters(
    tiers.sample(
      [
        ("--mehs=stage:2", "--mehs is not a flag; did you mean --mesh?"),
        ("--mesh=stage:x", "mesh 'stage:x' is malformed at 'stage:x'; "),
        ("--aggregation=rign", "--aggregation=rign is not known; use "),
        (
          "--optimizer_state=sharded --aggregation=ring",
          "aggregation='ring', compression='none' is for ",
        ),
      ]
    )
  )
  def test_wrong_flag(self, arguments, expected):
    for command in _COMMANDS:
      with self.subTest(command):
        code, output, errors = _run(_AS_MODULE, command, *arguments.split())
        self.assertEqual((code, output), (2, f"{_IMPORTED}\n"))
        self.assertStartsWith(errors, f"{command}: {expected}")
        self.assertLen(errors.splitlines(), 1)

  @parameterized.named_parameters(
    ("schedule", "train", "--schedule=gpipe --num_virtual_stages=2"),
    ("batch_of_trace", "trace", "--batch_size=30 --num_micro_batches=4"),
    ("no_features", "plan", "--model_fn=theirs:model_fn"),
    ("no_model", "plan", "--features=x:float32[?,1]"),
    ("params", "plan", "--model_fn=a:b --features=x:int32[1] --params=5"),
    ("rules", "plan", '--placement=[["a",5]]'),
    ("no_function", "compare", "--model_fn=theirs:model_fn"),
  )
  def test_flags_that_do_not_fit(self, command, arguments):
    code, output, errors = _run(_AS_MODULE, command, *arguments.split())
    self.assertEqual((code, output), (2, f"{_IMPORTED}\n"))
    self.assertStartsWith(errors, f"{command}: ")
    self.assertLen(errors.splitlines(), 1)

  @tiers.slow
  def test_a_run_begins_with_a_line_of_ours(self):
    model_dir = self.create_tempdir().full_path
    code, output, errors = _run(
      _AS_MODULE,
      "train",
      *("--model=mlp", "--train_steps=3", "--trace_steps=2"),
      f"--model_dir={model_dir}",
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertRegex(output.splitlines()[0], r"^  model +mlp$")

  def test_a_person_reads_a_line_at_once(self):
    """On a terminal; other tests pin that it is not in a log."""
    terminal, its_end = os.openpty()
    command = [sys.executable, "-m", "estimator_mp", "plan"]
    with subprocess.Popen(
      command, env=_environment(), stdout=subprocess.DEVNULL, stderr=its_end
    ) as process:
      os.close(its_end)
      with open(terminal, encoding="utf-8") as shown:
        line = shown.readline()
      process.kill()
    self.assertEqual(line, "plan: loading TensorFlow\n")

  @tiers.slow
  def test_sharding_warns_of_nothing(self):
    """TensorFlow's count of FLOPs calls what TensorFlow has deprecated."""
    code, output, errors = _run(_PROGRAM)
    self.assertEqual(code, 0, errors)
    self.assertEqual(output, "[]\n")

  @tiers.slow
  def test_a_program_keeps_its_log(self):
    """Only commands are quiet; a library does not say so for its users."""
    code, output, _ = _run(
      "import os, sys, estimator_mp\n"
      "print('tensorflow' in sys.modules)\n"
      "print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))\n"
      "import tensorflow as tf\n"
      "print(tf.estimator.Estimator.__name__, estimator_mp.Mesh.__name__)"
    )
    self.assertEqual(code, 0)
    self.assertEqual(output, "False\nNone\nEstimatorV2 Mesh\n")


if __name__ == "__main__":
  absltest.main()
