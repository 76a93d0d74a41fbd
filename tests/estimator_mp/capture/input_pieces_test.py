"""Batches that replicas have of their own are cut where they are."""

import gc
import weakref

from estimator_mp.capture import input_pieces, micro_batches

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_DEVICES = ("/device:CPU:0", "/device:CPU:1")


def _batches(sizes, is_known=True):
  """Returns batches of several kinds of inputs, each on its device.

  Args:
    sizes: Their numbers of examples.
    is_known: Whether the graph knows these.
  """
  batches = []
  start = 0
  for size, device in zip(sizes, _DEVICES, strict=True):
    numbers = np.arange(start, start + size, dtype=np.float32)
    start += size
    with tf.device(device):
      x = v1.placeholder_with_default(
        numbers[:, np.newaxis] + [[0.0, 0.5]], [size if is_known else None, 2]
      )
      features = {
        "x": x,
        "across": tf.transpose(x),
        "bag": tf.sparse.from_dense(x),
        "rows": tf.RaggedTensor.from_tensor(x, row_splits_dtype=tf.int32),
        "words": tf.strings.as_string(x[:, 0], 0),
      }
      batches.append({"features": features, "labels": None})
  return batches


_AXES = [("across", 1)]


class InputPiecesTest(parameterized.TestCase):
  def _split(self, sizes, count, is_known=True):
    inputs = input_pieces.join(_batches(sizes, is_known), _AXES)
    return micro_batches.split_batch(inputs, count, _AXES, 2)

  def _values(self, found):
    """Returns the first feature of the examples, of each input."""

    def dense(value):
      if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
      if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
      return value

    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(config=config) as session:
      values = session.run(tf.nest.map_structure(dense, found))
    values["across"] = values["across"].T
    return {
      name: [float(x) for x in (value if value.ndim == 1 else value[:, 0])]
      for name, value in values.items()
    }

  @parameterized.named_parameters(
    ("known", [4, 4], True, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("unknown", [4, 4], False, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("unequal", [4, 2], True, [[0, 1], [2, 3], [4], [5]]),
    ("odd", [3, 4], False, [[0, 1], [2], [3, 4], [5, 6]]),
  )
  def test_slices(self, sizes, is_known, expected):
    with tf.Graph().as_default():
      batches = self._split(sizes, 2, is_known)
      for found, numbers in zip(batches.inputs, expected, strict=True):
        values = self._values(found["features"])
        self.assertEqual(values, dict.fromkeys(values, numbers))
        self.assertIsNone(found["labels"])
      total = sum(sizes)
      weights = tf.stack(batches.mean_weights)
      with v1.Session(
        config=v1.ConfigProto(device_count={"CPU": 2})
      ) as session:
        np.testing.assert_allclose(
          session.run(weights), [len(x) / total for x in expected]
        )
      whole = {entry.name: entry.whole for entry in batches.cut}
      whole = {name.partition("/")[2]: x for name, x in whole.items()}
      values = self._values(whole)
      self.assertEqual(values, {name: [*range(total)] for name in values})

  @parameterized.parameters(True, False)
  def test_slices_are_made_where_the_batches_are(self, is_known):
    with tf.Graph().as_default():
      batches = self._split([4, 4], 2, is_known)
      self.assertEqual(batches.size, 2 if is_known else None)
      for number, found in enumerate(batches.inputs):
        parts = tf.nest.flatten(found["features"], expand_composites=True)
        for tensor in parts:
          self.assertEqual(tensor.device, _DEVICES[number // 2])
          self.assertIn(tensor.op, batches.whole.ops)

  def test_an_input_that_was_changed_is_cut_with_all_others(self):
    with tf.Graph().as_default():
      inputs = input_pieces.join(_batches([4, 2], False), _AXES)
      inputs["features"]["x"] = inputs["features"]["x"] * 1.0
      with self.assertLogs("tensorflow", "WARNING") as logged:
        batches = micro_batches.split_batch(inputs, 1, _AXES, 2)
      self.assertEqual(
        [x.getMessage() for x in logged.records],
        [
          "Input: features/x is not as input_fn made it, so the tasks send "
          "their batches to be cut together; let input_fn do what was done to "
          "it"
        ],
      )
      for found, numbers in zip(
        batches.inputs, [[0, 1, 2], [3, 4, 5]], strict=True
      ):
        values = self._values(found["features"])
        self.assertEqual(values, dict.fromkeys(values, numbers))

  def test_sizes_that_do_not_suit(self):
    with tf.Graph().as_default():
      with self.assertRaisesRegex(
        ValueError,
        r"^num_micro_batches=3, but the batch of a replica has 2 example\(s\), "
        r"so it cannot be cut; let input_fn leave out short batches",
      ):
        self._split([4, 2], 3)
      with self.assertRaisesRegex(
        ValueError,
        "^num_micro_batches=3 does not divide the batch of 4 that each of 2 "
        "replicas gets; use 1, 2 or 4$",
      ):
        self._split([4, 4], 3)

  def test_graphs_are_not_kept(self):
    with tf.Graph().as_default() as graph:
      self._split([4, 4], 2)
    kept = weakref.ref(graph)
    del graph
    gc.collect()
    self.assertIsNone(kept())


if __name__ == "__main__":
  absltest.main()
