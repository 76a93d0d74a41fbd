"""The numpy that programs of TensorFlow 1 see, beside what 1.18.5 says."""

import builtins
import pickle

from compat.v1 import numpy_view

import numpy as np
from absl.testing import absltest, parameterized

# What NumPy 1.18.5 tells of names that it lost.
_TYPES = {
  "bool": "bool",
  "bool8": "numpy.bool_",
  "bytes0": "numpy.bytes_",
  "cfloat": "numpy.complex128",
  "complex": "complex",
  "complex_": "numpy.complex128",
  "float": "float",
  "float_": "numpy.float64",
  "int": "int",
  "int0": "numpy.int64",
  "long": "int",
  "object": "object",
  "object0": "numpy.object_",
  "singlecomplex": "numpy.complex64",
  "str": "str",
  "str0": "numpy.str_",
  "string_": "numpy.bytes_",
  "uint0": "numpy.uint64",
  "unicode": "str",
  "unicode_": "numpy.str_",
  "void0": "numpy.void",
}
_NUMBERS = {
  "Inf": "inf",
  "Infinity": "inf",
  "NAN": "nan",
  "NINF": "-inf",
  "NZERO": "-0.0",
  "NaN": "nan",
  "PINF": "inf",
  "PZERO": "0.0",
  "infty": "inf",
}
_CALLS = {
  "alen([[1, 2], [3, 4], [5, 6]])": "3",
  "alen(7)": "1",
  "alltrue([1, 0]).item()": "False",
  "asfarray([1, 2])": "array([1., 2.])",
  "asfarray([1], dtype='int32').dtype": "dtype('float64')",
  "asfarray([1], dtype='float32').dtype": "dtype('float32')",
  "asscalar(np.array([2.5]))": "2.5",
  "cast['int32']([2.5])": "array([2], dtype=int32)",
  "cast[np.int]([2.5])": "array([2])",
  "cumproduct([1, 2, 3])": "array([1, 2, 6])",
  "fastCopyAndTranspose([[1, 2]])": "array([[1],\n       [2]])",
  "in1d([[1, 2], [3, 4]], [2, 4])": "array([False,  True, False,  True])",
  "in1d([1, 2], [2], invert=True)": "array([ True, False])",
  "issubclass_(bool, int)": "True",
  "issubclass_(3, int)": "False",
  "issubsctype('f4', np.inexact)": "True",
  "mat([1, 2])": "matrix([[1, 2]])",
  "msort([[2, 1], [1, 3]])": "array([[1, 1],\n       [2, 3]])",
  "math.floor(2.5)": "2",
  "product([2, 3]).item()": "6",
  "round_([2.6])": "array([3.])",
  "row_stack([[1], [2]])": "array([[1],\n       [2]])",
  "sctype2char(np.float32)": "'f'",
  "sctypes['float'][:2]": "[<class 'numpy.float16'>, <class 'numpy.float32'>]",
  "sometrue([1, 0]).item()": "True",
  "trapz([1, 2, 3]).item()": "4.0",
  "array([1, 2], copy=False)": "array([1, 2])",
  "typeDict['float32']": "<class 'numpy.float32'>",
  "loads(np.float32(2).dumps()).item()": "2.0",
}
# NumPy 1.18.5 has these, and no release note says what else means the same.
_GONE = ("who", "lookfor", "geterrobj", "find_common_type", "npv", "source")


class NumpyViewTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.np = numpy_view.NumpyView()

  @parameterized.parameters(*_TYPES.items())
  def test_types(self, name, told):
    found = getattr(self.np, name)
    path = told.rpartition("numpy.")[2]
    known = getattr(np, path) if "numpy." in told else getattr(builtins, path)
    self.assertIs(found, known)
    self.assertIs(pickle.loads(pickle.dumps(found)), found)

  @parameterized.parameters(*_NUMBERS.items())
  def test_numbers(self, name, told):
    self.assertEqual(repr(getattr(self.np, name)), told)

  @parameterized.parameters(*_CALLS.items())
  def test_calls(self, call, told):
    self.assertEqual(
      repr(eval(f"np.{call}", {"np": self.np})).removeprefix("np."), told
    )

  def test_every_old_name_leads_somewhere(self):
    for name in (*numpy_view.RENAMED, *numpy_view.FORMER):
      self.assertIn(name, dir(self.np))
      getattr(self.np, name)

  def test_all_else_is_numpys(self):
    self.assertIs(self.np.random, np.random)
    self.assertIs(self.np.zeros, np.zeros)
    self.assertEqual(self.np.__version__, np.__version__)
    with self.assertRaisesRegex(AttributeError, "foo"):
      self.np.foo  # noqa: B018

  @parameterized.parameters(*_GONE)
  def test_gone(self, name):
    if hasattr(np, name):
      self.skipTest(f"NumPy {np.__version__} has {name}")
    with self.assertRaisesRegex(AttributeError, name):
      getattr(self.np, name)

  def test_no_copy_unless_it_takes_one(self):
    known = np.arange(3)
    self.assertIs(self.np.array(known, copy=False), known)
    self.assertIsNot(self.np.array(known), known)
    self.assertEqual(
      self.np.array(known, np.float32, copy=False).dtype, np.float32
    )

  def test_what_a_program_sets_is_numpys(self):
    """As `np.load = lambda *a: np_load(*a, allow_pickle=True)` of 2019."""
    before = np.load
    try:
      self.np.load = abs
      self.assertIs(np.load, abs)
    finally:
      np.load = before
    self.np.made_up = 3
    self.assertEqual(np.made_up, 3)
    del self.np.made_up
    self.assertFalse(hasattr(np, "made_up"))

  def test_star_import(self):
    names = self.np.__all__
    self.assertContainsSubset({"float_", "in1d", "zeros", "sum"}, names)
    self.assertNoCommonElements(
      {"int", "bool", "abs", "max", "min", "round"}, names
    )


if __name__ == "__main__":
  absltest.main()
