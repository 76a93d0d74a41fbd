"""Requests to a stage: what a few bytes may become."""

import tracemalloc

from estimator_mp.serving import messages

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_MIB = 2**20


def _message(dtype, shape, **values):
  message = tf.compat.v1.NameAttrList(name="f")
  tensor = message.attr["x"].tensor
  tensor.dtype = dtype
  for size in shape:
    tensor.tensor_shape.dim.add(size=size)
  for name, value in values.items():
    getattr(tensor, name).append(value)
  return message.SerializeToString()


def _signature(**inputs):
  """Returns a signature whose inputs have such dtypes and shapes."""
  with tf.Graph().as_default():
    infos = {
      name: tf.compat.v1.saved_model.build_tensor_info(
        tf.compat.v1.placeholder(dtype, shape)
      )
      for name, (dtype, shape) in inputs.items()
    }
  return tf.compat.v1.saved_model.build_signature_def(infos, {}, "")


class LongestRequestTest(parameterized.TestCase):
  @parameterized.parameters(
    ([{"x": ("float32", [8, 1000])}], 32_000),
    ([{"x": ("float32", [2, 3]), "y": ("int64", [5])}], 64),
    ([{"x": ("bool", [])}], 1),
    ([{}], 0),
    ([{"x": ("uint8", [size])} for size in (4, 100, 7)], 100),
    # Of others it is what protobuf allows.
    ([{"y": ("int32", [2])}, {"x": ("float32", [None, 3])}], None),
    ([{"x": ("float32", None)}], None),
    ([{"x": ("string", [3])}], None),
    ([{"x": ("float32", [2**40])}], None),
  )
  def test_of_signatures(self, signatures, size):
    found = messages.longest_request([_signature(**x) for x in signatures])
    self.assertEqual(found, 2**31 - 1 if size is None else size + 64 * _MIB)


class MessagesTest(parameterized.TestCase):
  @parameterized.parameters(
    (np.ones((), np.float32),),
    (np.array(True),),
    (np.zeros([0, 3], np.float16),),
    (np.array([], np.int64),),
    (np.array([[1.5, np.nan]], np.float32),),
    (np.array([[b"a\0", b"\xff"], [b"", "\u00fc".encode()]], object),),
  )
  def test_arrays(self, array):
    name, found = messages.decode(messages.encode("f", {"a:0": array}))
    self.assertEqual((name, [*found]), ("f", ["a:0"]))
    self.assertEqual(found["a:0"].shape, array.shape)
    np.testing.assert_array_equal(found["a:0"], array)

  def test_more_than_the_limit_of_elements(self):
    large = np.ones(80 * _MIB, np.uint8)
    _, found = messages.decode(messages.encode("f", {"large": large}))
    self.assertEqual(found["large"].nbytes, 80 * _MIB)

  def test_equal_elements_are_expanded(self):
    message = _message(tf.float32.as_datatype_enum, [1024, 1024], float_val=2.0)
    _, found = messages.decode(message)
    np.testing.assert_array_equal(found["x"], np.full([1024, 1024], 2.0))

  @parameterized.named_parameters(
    ("numbers", tf.float32, [500_000_000], {"float_val": 1.0}),
    ("dimensions", tf.float32, [2**40, 2**40], {"float_val": 1.0}),
    ("texts", tf.string, [500_000_000], {"string_val": b"a"}),
  )
  def test_a_few_bytes_that_become_many_are_refused(self, dtype, shape, values):
    message = _message(dtype.as_datatype_enum, shape, **values)
    self.assertLess(len(message), 60)
    tracemalloc.start()
    with self.assertRaisesRegex(
      ValueError, r"would take [\d,]+ bytes, most .* 'x', and may take 67,108,"
    ):
      messages.decode(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    self.assertLess(peak, _MIB)

  def test_several_tensors_share_the_limit(self):
    message = tf.compat.v1.NameAttrList(name="f")
    for name in "abc":
      tensor = message.attr[name].tensor
      tensor.dtype = tf.float32.as_datatype_enum
      tensor.tensor_shape.dim.add(size=8 * _MIB)
      tensor.float_val.append(1.0)
    with self.assertRaisesRegex(ValueError, "they would take 100,663,296"):
      messages.decode(message.SerializeToString())

  @parameterized.parameters(([-1],), ([2**40, -3],))
  def test_no_shape(self, shape):
    message = _message(tf.float32.as_datatype_enum, shape, float_val=1.0)
    with self.assertRaisesRegex(ValueError, "'x' has no shape$"):
      messages.decode(message)


if __name__ == "__main__":
  absltest.main()
