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
  def _parts(self, batch, count):
    inputs = micro_batches.inputs_with_examples(batch, _AXES)
    return micro_batches.parts_of_batch(inputs, count, num_replicas=2), inputs

  def _values(self, fetches):
    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(config=config) as session:
      return session.run(fetches)

  @parameterized.named_parameters(
    ("known", [4, 4], True, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("unknown", [4, 4], False, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("unequal", [4, 2], True, [[0, 1], [2, 3], [4], [5]]),
    ("odd", [3, 4], False, [[0, 1], [2], [3, 4], [5, 6]]),
  )
  def test_slices(self, sizes, is_known, expected):
    with tf.Graph().as_default():
      batch = input_pieces.join(_batches(sizes, is_known), _AXES)
      parts, inputs = self._parts(batch, 4)
      total = sum(sizes)
      for entry in inputs:
        if not isinstance(entry.value, tf.Tensor):
          continue
        slices = parts.cut(entry.value, entry.axis, 1)
        devices = [x.device for x in slices]
        self.assertEqual(devices, [_DEVICES[i // 2] for i in range(4)])
        for found, numbers in zip(self._values(slices), expected, strict=True):
          found = (
            found if found.ndim == 1 else np.take(found, 0, 1 - entry.axis)
          )
          self.assertEqual([float(x) for x in found], numbers)
      whole = self._values(batch["features"]["x"])
      self.assertEqual([*whole[:, 0]], [*range(total)])

  def test_an_input_that_was_changed_is_cut_with_all_others(self):
    with tf.Graph().as_default():
      batch = input_pieces.join(_batches([4, 2], False), _AXES)
      batch["features"]["x"] = batch["features"]["x"] * 1.0
      with self.assertLogs("tensorflow", "WARNING") as logged:
        parts, inputs = self._parts(batch, 2)
      self.assertEqual(
        [x.getMessage() for x in logged.records],
        [
          "Input: features/x was changed after input_fn, so the tasks send "
          "their batches to be cut together; make the change in input_fn"
        ],
      )
      (words,) = [x.value for x in inputs if x.name == "features/words"]
      found = self._values(parts.cut(words, 0, 1))
      self.assertEqual(
        [[float(x) for x in piece] for piece in found], [[0, 1, 2], [3, 4, 5]]
      )

  def test_graphs_are_not_kept(self):
    with tf.Graph().as_default() as graph:
      self._parts(input_pieces.join(_batches([4, 4]), _AXES), 4)
    kept = weakref.ref(graph)
    del graph
    gc.collect()
    self.assertIsNone(kept())


if __name__ == "__main__":
  absltest.main()
