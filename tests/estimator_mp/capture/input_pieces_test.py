"""Batches that replicas have of their own stay where they are."""

import gc
import weakref

from estimator_mp.capture import input_pieces, micro_batches, replica_batches

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
  def _found(self, batch):
    """Returns the batches of replicas, and the inputs."""
    inputs = micro_batches.inputs_with_examples(batch, _AXES)
    return replica_batches.find(inputs, 2), inputs

  def _values(self, fetches):
    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(config=config) as session:
      return session.run(fetches)

  @parameterized.named_parameters(
    ("known", [4, 4], True, 4),
    ("unknown", [4, 4], False, None),
    ("unequal", [4, 2], True, None),
    ("odd", [3, 4], False, None),
  )
  def test_pieces(self, sizes, is_known, known_size):
    with tf.Graph().as_default():
      batch = input_pieces.join(_batches(sizes, is_known), _AXES)
      found, inputs = self._found(batch)
      self.assertEqual(found.known_size, known_size)
      self.assertEqual(found.hosts, _DEVICES)
      checked = replica_batches.checked_sizes(found, 2)
      self.assertEqual(self._values(checked), sizes)
      for number, entry in enumerate(inputs):
        if not isinstance(entry.value, tf.Tensor):
          continue
        pieces = [of_one[number].value for of_one in found.inputs]
        self.assertEqual(tuple(x.device for x in pieces), _DEVICES)
        whole, *values = self._values([entry.value, *pieces])
        np.testing.assert_array_equal(np.concatenate(values, entry.axis), whole)
      whole = self._values(batch["features"]["x"])
      self.assertEqual([*whole[:, 0]], [*range(sum(sizes))])

  def test_with_an_input_that_was_changed_all_are_whole(self):
    with tf.Graph().as_default():
      batch = input_pieces.join(_batches([4, 2], False), _AXES)
      batch["features"]["x"] = batch["features"]["x"] * 1.0
      with self.assertLogs("tensorflow", "WARNING") as logged:
        found, inputs = self._found(batch)
      self.assertIsNone(found)
      self.assertEqual(
        [x.getMessage() for x in logged.records],
        [
          "Input: features/x was changed after input_fn, so the tasks send "
          "their batches to be cut together; make the change in input_fn"
        ],
      )
      (words,) = [x.value for x in inputs if x.name == "features/words"]
      self.assertEqual([float(x) for x in self._values(words)], [*range(6)])

  def test_graphs_are_not_kept(self):
    with tf.Graph().as_default() as graph:
      self._found(input_pieces.join(_batches([4, 4]), _AXES))
    kept = weakref.ref(graph)
    del graph
    gc.collect()
    self.assertIsNone(kept())


if __name__ == "__main__":
  absltest.main()
