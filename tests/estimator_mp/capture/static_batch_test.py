"""A batch of the size that the user says: told to model_fn, and checked."""

from estimator_mp.capture import input_pieces, static_batch
from tests.estimator_mp import graph_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _tensor(*shape, **fields):
  return v1.placeholder(fields.pop("dtype", tf.float32), shape, **fields)


class StaticBatchTest(graph_case.GraphCase):
  def test_open_sizes_are_told(self):
    known, rate = _tensor(8, 2), _tensor()
    words = v1.sparse_placeholder(tf.string, [None, 9])
    batch = {
      "features": {
        "x": _tensor(None, 2),
        "time of day": _tensor(3, None),
        "known": known,
        "rate": rate,
        "words": words,
        "name": "a",
      },
      "labels": (_tensor(None), None),
      "mode": "train",
    }
    found = static_batch.with_size(batch, 8, [("time", 1)])
    features = found["features"]
    self.assertEqual(features["x"].shape, [8, 2])
    self.assertEqual(features["time of day"].shape, [3, 8])
    self.assertEqual(found["labels"][0].shape, [8])
    for name, value in [("known", known), ("rate", rate), ("words", words)]:
      self.assertIs(features[name], value)
    self.assertEqual(
      (features["name"], found["labels"][1], found["mode"]),
      ("a", None, "train"),
    )

  def test_a_step_says_which_input_has_another_size(self):
    x = _tensor(2, None)
    found = static_batch.with_size({"labels": {"y": x}}, 8, [("", 1)])
    with v1.Session() as session:
      fed = np.ones([2, 8])
      value = session.run(found["labels"]["y"], {x: fed})
      np.testing.assert_array_equal(value, fed)
      with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
        session.run(found["labels"]["y"], {x: fed[:, :5]})
    self.assertStartsWith(
      static_batch.message_of_check(raised.exception.message),
      "static_batch_size=8, but labels/y has 5 example(s); let input_fn leave ",
    )
    self.assertIsNone(static_batch.message_of_check("Incompatible shapes"))

  @parameterized.named_parameters(
    ("known", lambda: _tensor(6, 2), "=8, but features/x has 6 example"),
    (
      "of_replicas",
      lambda: input_pieces.join([_tensor(None, 2), _tensor(None, 2)]),
      "=8 is of one batch for all replicas, .* drop_remainder=True",
    ),
  )
  def test_refused(self, make, message):
    with self.assertRaisesRegex(ValueError, f"^static_batch_size{message}"):
      static_batch.with_size({"features": {"x": make()}}, 8)


if __name__ == "__main__":
  absltest.main()
