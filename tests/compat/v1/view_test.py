"""A TensorFlow 1 program and its neighbours, each in a process of its own."""

import os
import textwrap

from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

# What an unedited program of 2018 might import, and how.
_IMPORTS = """
import tensorflow as tf
import tensorflow
import tensorflow.compat.v1 as tf1
import tensorflow.contrib.layers as contrib_layers
import tensorflow.keras.layers
import tensorflow.contrib
from tensorflow import flags, layers
from tensorflow.contrib import rnn
from tensorflow.contrib.layers import fully_connected
from tensorflow.keras.layers import Dense
from tensorflow.nn.rnn_cell import LSTMCell
from tensorflow.python.framework import ops
import tensorflow_core
import beside

assert tf is tensorflow is tf1 is tf.compat.v1
assert tf.__version__ == tf.VERSION == beside.version == "1.15.5"
assert tf.contrib.layers is contrib_layers is tensorflow.contrib.layers
assert contrib_layers.fully_connected is fully_connected
assert tf.layers is layers and tf.flags.FLAGS is flags.FLAGS
assert tf.keras.layers.Dense is Dense is tensorflow.keras.layers.Dense
assert tf.nn.rnn_cell.LSTMCell is LSTMCell is rnn.LSTMCell
assert ops.Graph is tf.Graph
assert tf.contrib.__name__ == "compat.contrib" or tf.contrib.layers
assert "placeholder" in dir(tf) and "VERSION" in dir(tf)
print("imported")
"""

# How else code gets hold of a module.
_OTHER_WAYS = """
import importlib
import pickle
import sys
from unittest import mock

import numpy as np
import numpy.random as npr
import tensorflow as tf
from numpy import float_, int as python_int

assert importlib.import_module("tensorflow") is tf
assert importlib.import_module("tensorflow.nn") is tf.nn
assert importlib.import_module(".nn", "tensorflow") is tf.nn
assert importlib.import_module("numpy") is np
assert __import__("tensorflow") is __import__("tensorflow", globals()) is tf

names = {}
exec("import tensorflow as tf, numpy as np\\ntf.nn.relu.__name__", names)
assert names["tf"] is tf and names["np"] is np
names["x"] = tf.placeholder(tf.float32, [None, 3])
assert eval("x.shape[1].value", names) == 3
exec("from tensorflow import *\\nfrom numpy import *", names)
assert names["placeholder"] is tf.placeholder and names["float_"] is float_

for value in (tf.nn.relu, tf.layers.dense, tf.Session, tf.keras.layers.LSTM,
              tf.train.AdamOptimizer, tf.image.per_image_standardization,
              tf.losses.softmax_cross_entropy, tf.float32, np.int, np.array):
  assert pickle.loads(pickle.dumps(value)) is value, value
assert pickle.loads(
  b"ctensorflow.python.training.adam\\nAdamOptimizer\\n."
) is tf.train.AdamOptimizer

for patch in (mock.patch("tensorflow.nn.relu"),
              mock.patch.object(tf.nn, "relu"),
              mock.patch("tensorflow.nn.relu", autospec=True)):
  relu = tf.nn.relu
  with patch as mocked:
    assert tf.nn.relu is mocked
  assert tf.nn.relu is relu

assert np.int is python_int is int and np.bool is bool
assert npr is np.random
assert sys.modules["tensorflow"] is not tf
assert sys.modules["numpy"] is not np
assert not hasattr(sys.modules["numpy"], "int")
print("found")
"""

_SPAWNING = """
import multiprocessing
import sys

import numpy as np
import tensorflow as tf


def tell(size):
  y = tf.layers.dense(tf.placeholder(tf.float32, [None, 3]), size)
  return tf.VERSION, y.shape[1].value, np.float_(size), sys.argv[1:]


if __name__ == "__main__":
  for method in ("spawn", "forkserver"):
    with multiprocessing.get_context(method).Pool(1) as pool:
      assert pool.map(tell, [4]) == [("1.15.5", 4, 4.0, sys.argv[1:])]
  print("told")
"""

_BEHAVIOR = """
import tensorflow as tf

def main(_):
  x = tf.placeholder(tf.float32, [None, 3])
  assert x.shape[1].value == 3 and x.shape[0].value is None
  assert [d.value for d in x.shape] == [None, 3]
  weights = tf.get_variable("weights", [3, 1])
  either = tf.cond(tf.size(x) > 0, lambda: x, lambda: 2 * x)
  print(weights.op.type, either.op.type)
  assert not tf.executing_eagerly()
  other = tf.identity(x)
  assert len({x, other}) == 2 and not x == other
  tf.reset_default_graph()
  print(tf.flags.FLAGS.size)

if __name__ == "__main__":
  tf.flags.DEFINE_integer("size", 4, "a size")
  tf.app.run()
"""

_ABSENT = """
import tensorflow as tf
for name in ("foo", "nn.foo"):
  try:
    eval("tf." + name)
  except AttributeError as error:
    print(error)
try:
  from tensorflow import foo
except ImportError as error:
  print(error)
try:
  import tensorflow.contrib.foo
except ImportError as error:
  print(error)
"""

# An installed package of today, and a program that uses it.
_MODERN = """
import importlib
import numpy as np
import tensorflow as tf
from tensorflow import keras

assert tf.__version__.startswith("2.") and not hasattr(tf, "placeholder")
assert importlib.import_module("tensorflow") is tf
exec("import tensorflow, numpy", names := {})
assert names["tensorflow"] is tf and names["numpy"] is np
assert not hasattr(np, "int")

@tf.function
def double(x):
  assert isinstance(x.shape[1], int), x.shape
  assert x.shape[0] is None or isinstance(x.shape[0], int)
  if x.shape[0] is None:
    return 2 * x
  return tf.reshape(x, [x.shape[0], -1]) * 2

class Scale(tf.Module):
  def __init__(self):
    super().__init__()
    self.factor = tf.Variable(3.0)

  def __call__(self, x):
    return self.factor * double(x)

def network():
  return keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
"""

_BESIDE_MODERN = """
import numpy as np
import modern
import tensorflow as tf

x = tf.placeholder(tf.float32, [None, 3])
scaled = modern.Scale()(x)
assert scaled.shape[1].value == 3
model = modern.network()
y = model(scaled)
with tf.Session() as session:
  session.run(tf.global_variables_initializer())
  found, sized = session.run([scaled, tf.shape(y)], {x: np.ones([2, 3])})
print(found[0][0], sized.tolist(), tf.__version__)
"""


class ViewTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.write("beside.py", "import tensorflow as tf\nversion = tf.VERSION\n")

  def write(self, name, source):
    path = os.path.join(self.folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
      file.write(textwrap.dedent(source))
    return path

  def run_v1(self, source, *options):
    """Returns what a program prints under `python -m compat --v1`."""
    program = self.write("program.py", textwrap.dedent(source))
    return self.run_compat(*options, program)

  def run_compat(self, *arguments):
    env = processes.environment()
    installed = os.path.join(self.folder, "env", "site-packages")
    env["PYTHONPATH"] += os.pathsep + installed
    result = processes.run("-m", "compat", "--v1", *arguments, env=env)
    self.assertEqual(result.returncode, 0, result.stderr)
    return result.stdout

  @tiers.slow
  def test_every_way_to_get_hold_of_a_module(self):
    told = self.run_v1(_IMPORTS + _OTHER_WAYS)
    self.assertIn("imported", told)
    self.assertIn("found", told)

  @tiers.slow
  def test_spawned_processes(self):
    program = self.write("program.py", _SPAWNING)
    self.assertIn("told", self.run_compat(program, "--its_own"))

  @tiers.slow
  def test_spawned_processes_of_an_installed_program(self):
    self.write("env/site-packages/old/__init__.py", "")
    self.write("env/site-packages/old/train.py", _SPAWNING)
    self.assertIn("told", self.run_compat("-m", "old.train", "--its_own"))

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("as_on_1_15", (), "VariableV2 Merge"),
        ("resource_variables", ("--resource_variables",), "VarHandleOp Merge"),
        ("v2_control_flow", ("--v2_control_flow",), "VariableV2 Identity"),
      ]
    )
  )
  def test_behavior(self, options, types):
    self.assertEqual(
      self.run_v1(_BEHAVIOR, *options).split("\n")[:2], [types, "4"]
    )

  @tiers.slow
  def test_what_is_absent_is_explained(self):
    lines = self.run_v1(_ABSENT).splitlines()
    self.assertLen(lines, 4)
    for line, name in zip(lines, ("foo", "nn.foo", "foo", "contrib.foo")):
      self.assertIn(f"tf.{name}", line)

  @tiers.slow
  def test_a_package_of_today_beside_it(self):
    self.write("env/site-packages/modern.py", _MODERN)
    self.assertIn("6.0 [2, 2] 1.15.5", self.run_v1(_BESIDE_MODERN))

  @tiers.slow
  def test_installed_packages_of_the_program(self):
    self.write(
      "env/site-packages/old/__init__.py",
      "import tensorflow as tf\nversion = tf.VERSION\n",
    )
    self.write("env/site-packages/old/part.py", "from old import version\n")
    told = self.run_v1(
      "import old.part\nprint(old.part.version)\n", "--v1_packages=old,other"
    )
    self.assertEqual(told, "1.15.5\n")

  @tiers.slow
  def test_one_added_line(self):
    program = self.write(
      "program.py",
      "import compat; compat.install(v1=True)\n" + _BEHAVIOR,
    )
    result = processes.run(program)
    self.assertEqual(
      result.stdout.split("\n")[0], "VariableV2 Merge", result.stderr
    )

  @tiers.slow
  def test_another_behavior_is_refused(self):
    told = self.run_v1(
      """
      import compat
      compat.install(v1=True)
      try:
        compat.install(v1=True, resource_variables=True)
      except compat.CompatError as error:
        print(error)
      """
    )
    self.assertIn("resource_variables is True, but was False", told)

  def test_choices_without_v1(self):
    result = processes.run("-m", "compat", "--v2_control_flow", "program.py")
    self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
  absltest.main()
