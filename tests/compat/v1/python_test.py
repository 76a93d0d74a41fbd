"""Names that Python's library lost since 3.7 are there for old packages."""

import base64
import collections
import fractions
import importlib
import inspect
import threading
import time

from compat.v1 import python

from absl.testing import absltest


class PythonTest(absltest.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    python.supply()

  def test_every_name_is_there(self):
    self.assertTrue(issubclass(dict, collections.Mapping))
    self.assertEqual(fractions.gcd(12, 18), 6)
    self.assertEqual(base64.decodestring(base64.encodestring(b"a")), b"a")
    self.assertFalse(threading.Thread().isAlive())
    self.assertLessEqual(time.clock(), time.clock())

  def test_getargspec(self):
    def function(a, b=2, *c, **d):
      del a, b, c, d

    found = inspect.getargspec(function)
    self.assertEqual(found, (["a", "b"], "c", "d", (2,)))
    self.assertEqual(found.args, ["a", "b"])

  def test_getargspec_refuses_what_it_cannot_tell(self):
    def function(*, a):
      del a

    with self.assertRaisesRegex(ValueError, "keyword-only"):
      inspect.getargspec(function)

  def test_imp(self):
    path = self.create_tempfile("made.py", "X = 3\n").full_path
    imp = importlib.import_module("imp")
    self.assertEqual(imp.load_source("made", path).X, 3)

  def test_what_python_has_stays(self):
    before = vars(inspect).copy(), vars(collections).copy()
    python.supply()
    self.assertEqual((vars(inspect), vars(collections)), before)


if __name__ == "__main__":
  absltest.main()
