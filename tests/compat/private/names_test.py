"""The table of private names is that of the code, and of this TensorFlow.

`python -m tests.compat.private.write_names` writes it again.
"""

import importlib.metadata
import pathlib
import textwrap
from unittest import mock

from compat import versions
from compat.private import probe
from tests.compat import processes
from tests.compat.private import used_names, write_names
from tests.packaging import private_names

from absl.testing import absltest, parameterized

_CODE = """
import importlib
import numpy as np
import tensorflow.python.ops.nn as nn
from tensorflow.python.framework import ops as of, tensor_shape
from tensorflow.python.util.deprecation import deprecated
training: Any = importlib.import_module("tensorflow.python.training.saver")

@deprecated
def f(x: of.Graph):
  x.y = np.relu(nn.relu(x))
  importlib.import_module("tensorflow.python.util.nest").flatten(x)
  return training.Saver(x)
"""


def _of(user):
  return {
    (one.module, one.name)
    for one in probe.read()
    if user in one.used_by.split()
  }


class TableTest(parameterized.TestCase):
  @parameterized.parameters(*used_names.WHEELS)
  def test_names_of_a_wheel(self, wheel):
    user = f"{wheel}=={importlib.metadata.version(wheel)}"
    names = _of(user)
    if not names:
      self.skipTest(f"the table is not of {user}")
    self.assertEqual(used_names.of_wheel(wheel), names)

  def test_names_of_compat(self):
    table = {
      (path, (one.module, one.name))
      for one in probe.read()
      for path in one.used_by.split()
      if "==" not in path
    }
    self.assertEmpty(
      table.symmetric_difference(used_names.of_compat()), "run write_names"
    )

  def test_each_private_attribute_has_an_owner(self):
    lost = [
      f"{path}: {name}"
      for path in private_names.sources(private_names.PRIVATE)
      for owner, name in used_names.attributes(path)
      if not owner
    ]
    self.assertEmpty(lost, "name their owners in tests/.../used_names.py")

  def test_this_tensorflow_has_what_the_table_says(self):
    done = processes.run("-m", "compat.private.probe")
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    self.assertRegex(
      done.stdout, r"^TensorFlow \S+: of \d{4} .* 0 are gone and 0 new\.$"
    )


class ProbeTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("function", "os.path", "join", True),
    ("module", "concurrent", "futures", True),
    ("method", "threading.Thread", "start", True),
    ("of_instances", "threading.Thread", "_target", True),
    ("no_function", "os.path", "fold", False),
    ("no_attribute", "threading.Thread", "_fold", False),
    ("of_no_module", "os.fold", "join", False),
    ("of_no_package", "no_such_package", "join", False),
  )
  def test_is_there(self, module, name, expected):
    self.assertEqual(probe.is_there(module, name), expected)

  def test_says_what_is_gone_and_new(self):
    rows = {
      "join": ((2, 15), (2, 21)),
      "fold": ((2, 15), (2, 22)),
      "unfold": ((2, 15), (2, 15)),
      "split": (None, None),
      "exists": ((2, 15), (2, 22)),
    }
    names = {
      name: probe.PrivateName("os.path", name, *ends, "tf-slim==1.1.0")
      for name, ends in rows.items()
    }
    with mock.patch.object(versions, "NEWEST_TESTED", (2, 22)):
      for release in ((2, 22), (2, 23)):  # What a newer one had is expected.
        self.assertEqual(
          probe.compare(release, names.values()),
          ([names["fold"]], [names["join"], names["split"]]),
        )

  def test_names_of_code(self):
    self.assertEqual(
      used_names.of_code(textwrap.dedent(_CODE)),
      {
        ("tensorflow.python.framework", "ops"),
        ("tensorflow.python.framework", "tensor_shape"),
        ("tensorflow.python.framework.ops", "Graph"),
        ("tensorflow.python.ops", "nn"),
        ("tensorflow.python.ops.nn", "relu"),
        ("tensorflow.python.training", "saver"),
        ("tensorflow.python.training.saver", "Saver"),
        ("tensorflow.python.util", "nest"),
        ("tensorflow.python.util.deprecation", "deprecated"),
        ("tensorflow.python.util.nest", "flatten"),
      },
    )

  def test_table_is_written_as_it_is_read(self):
    a, b = ("tensorflow.python.ops", "a"), ("tensorflow.python.ops", "b")
    text = write_names.text({b: "x", a: "x y"}, {a: {(2, 15), (2, 9), (2, 22)}})
    path = pathlib.Path(self.create_tempfile(content=text).full_path)
    with mock.patch.object(probe, "TABLE", path):
      self.assertEqual(
        probe.read(),
        [
          probe.PrivateName(*a, (2, 9), (2, 22), "x y"),
          probe.PrivateName(*b, None, None, "x"),
        ],
      )


if __name__ == "__main__":
  absltest.main()
