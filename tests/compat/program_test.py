"""`python -m compat PROGRAM` runs the program as Python itself would."""

import os
import re

from compat import namesake
from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

_FAKES = {"tensorflow": "__version__ = '2.15.1'\n"}

_TELL = """
import os, sys
import beside
if __name__ == "__main__":
  print(sys.argv[1:], beside.HERE, os.path.basename(__file__))
  assert sys.modules["__main__"].__dict__ is globals()
  sys.exit(int(sys.argv[1]))
"""

_TRAIN = """
import tensorflow as tf
import numpy as np

def main():
  def input_fn():
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(16)
  column = tf.feature_column.numeric_column("x")
  model = tf.estimator.LinearRegressor([column])
  model.train(input_fn)
  print("steps", model.evaluate(input_fn)["global_step"])

main()
"""


class ProgramTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.directory = self.create_tempdir().full_path
    self.program = self.write("program.py", _TELL)
    self.write("beside.py", "HERE = 'beside'\n")

  def write(self, name, source):
    path = os.path.join(self.directory, name)
    with open(path, "w") as file:
      file.write(source)
    return path

  def run_compat(self, *arguments, cwd=None):
    """Runs `python -m compat` where TensorFlow is a made-up 2.15."""
    return self.run_python("-m", "compat", *arguments, cwd=cwd)

  def run_python(self, *arguments, cwd=None):
    fakes = self.create_tempdir().full_path
    with open(os.path.join(fakes, "tensorflow.py"), "w") as file:
      file.write(_FAKES["tensorflow"])
    paths = os.pathsep.join([processes.REPOSITORY, fakes])
    env = processes.environment(PYTHONPATH=paths)
    return processes.run("-S", *arguments, env=env, cwd=cwd)

  @parameterized.named_parameters(
    ("file", ["program.py", "7", "--help", "-m", "x y"]),
    ("module", ["-m", "program", "7", "--help", "-m", "x y"]),
  )
  def test_arguments_and_exit_code_are_the_programs(self, arguments):
    result = self.run_compat(*arguments, cwd=self.directory)
    self.assertEqual(
      result.stdout.strip(),
      "['7', '--help', '-m', 'x y'] beside program.py",
      result.stderr,
    )
    self.assertEqual(result.returncode, 7)

  def test_file_imports_from_beside_itself(self):
    result = self.run_compat(self.program, "0")
    self.assertIn("beside program.py", result.stdout, result.stderr)
    self.assertEqual(result.returncode, 0)

  def test_traceback_is_the_programs(self):
    program = self.write("fails.py", "raise ValueError('its own')\n")
    result = self.run_compat(program)
    self.assertIn("ValueError: its own", result.stderr)
    self.assertEqual(result.returncode, 1)

  @parameterized.named_parameters(
    ("file", "compat.py"), ("package", "compat/__init__.py")
  )
  def test_program_has_a_module_of_our_name(self, path):
    """It hides `python -m compat`, and not the command that pip installs."""
    os.makedirs(os.path.join(self.directory, "compat"), exist_ok=True)
    self.write(path, "OWN = 'its own'\n")
    self.write("user.py", "from compat import OWN\n")
    self.write(
      "program.py",
      """
import compat
import user
from multiprocessing import get_context

def tell():
  from tensorflow import __version__
  print(compat.OWN, user.OWN, __name__, __version__, flush=True)

if __name__ == "__main__":
  tell()
  child = get_context("spawn").Process(target=tell)
  child.start()
  child.join()
""",
    )
    command = "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    command += "from compat.program import run; run()"
    for arguments in (["program.py"], ["-m", "program"]):
      result = self.run_python(
        *("-c", command, processes.REPOSITORY, *arguments), cwd=self.directory
      )
      self.assertEqual(
        result.stdout,
        "its own its own __main__ 2.15.1\nits own its own __mp_main__ 2.15.1\n",
        result.stderr,
      )

  @parameterized.parameters(True, False)
  def test_links_to_our_files_are_ours(self, is_ours):
    """As Bazel makes them of a program, and of this package beside it."""
    folder = os.path.join(self.directory, "compat")
    os.makedirs(folder)
    init = os.path.join(folder, "__init__.py")
    if is_ours:
      package = os.path.dirname(os.path.realpath(namesake.__file__))
      os.symlink(os.path.join(package, "__init__.py"), init)
    else:
      self.write(init, "")
    self.assertEqual(namesake.find(self.directory) is None, is_ours)

  @parameterized.named_parameters(
    ("nothing", [], r"required: program, arguments|required: program"),
    ("no_file", ["none.py"], r"error: there is no file 'none.py'"),
  )
  def test_wrong_use(self, arguments, message):
    result = self.run_compat(*arguments)
    self.assertEqual(result.returncode, 2)
    self.assertTrue(re.search(message, result.stderr), result.stderr)

  def test_unsupported_tensorflow_is_one_line(self):
    old = self.create_tempdir().full_path
    with open(os.path.join(old, "tensorflow.py"), "w") as file:
      file.write("__version__ = '2.12.0'\n")
    paths = os.pathsep.join([processes.REPOSITORY, old])
    env = processes.environment(PYTHONPATH=paths)
    result = processes.run("-S", "-m", "compat", self.program, env=env)
    self.assertEqual(result.returncode, 1)
    self.assertRegex(
      result.stderr, r"^python -m compat: TensorFlow 2\.12\.0 is too old: .*\n$"
    )

  @tiers.slow
  def test_unedited_program_trains(self):
    program = self.write("train.py", _TRAIN)
    result = processes.run("-m", "compat", program)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn("steps 4", result.stdout)


if __name__ == "__main__":
  absltest.main()
