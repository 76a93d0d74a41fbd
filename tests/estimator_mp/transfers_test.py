"""What is sent between devices: as planned, as shown, and as measured."""

import dataclasses
from typing import Any

import estimator_mp
from estimator_mp import costs, transfers
from tests.estimator_mp import runs, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
BATCH = 32  # Where a graph does not know the batch.


@dataclasses.dataclass(frozen=True)
class Sent:
  """The placement of a graph, and what its first step sent."""

  placement: estimator_mp.Placement
  measured: list[transfers.MeasuredTransfer]
  signals: list[transfers.MeasuredTransfer]


class PlacementReader(tf.estimator.SessionRunHook):
  placement: Any = None

  def begin(self):
    self.placement = estimator_mp.get_placement(v1.get_default_graph())


def train_a_step(test, name, mesh) -> Sent:
  model = zoo.MODELS[name]
  config = estimator_mp.ShardingConfig(mesh)
  reader = PlacementReader()
  hook = estimator_mp.PlacementVerificationHook()
  test.assertEqual(hook.transfers, ())
  estimator = runs.make_estimator(
    estimator_mp.shard_model_fn(model.model_fn, config),
    config,
    model.params,
    test.create_tempdir().full_path,
  )
  estimator.train(zoo.input_fn, steps=1, hooks=[reader, hook])
  return Sent(
    reader.placement,
    [x for x in hook.transfers if not x.is_signal],
    [x for x in hook.transfers if x.is_signal],
  )


def routes(sent):
  """Returns (op, source, destination) of planned or measured transfers."""
  return {
    (getattr(x, "op", None) or x.tensor.partition(":")[0], *route(x))
    for x in sent
  }


def route(transfer):
  return transfer.source[-1], transfer.destination[-1]


class MeasuredTest(parameterized.TestCase):
  def test_a_transformer_sends_what_was_planned(self):
    """14 tensors are planned, and 15 and 2 signals sent.

    The Estimator's summary of the loss is the fifteenth: it is on no stage.
    TensorFlow's optimizer renames the learning rate. A signal from each other
    device ends the training step.
    """
    sent = train_a_step(self, "transformer", "stage:3")
    planned = routes(sent.placement.transfers)
    measured = routes(sent.measured)
    self.assertLen(planned, 14)
    self.assertLen(sent.measured, 15)
    self.assertEqual(
      measured - planned,
      {
        ("Mean", "2", "0"),
        ("PolynomialDecay/Mul", "0", "1"),
        ("PolynomialDecay/Mul", "0", "2"),
      },
    )
    self.assertEqual(
      planned - measured,
      {("PolynomialDecay", "0", "1"), ("PolynomialDecay", "0", "2")},
    )
    self.assertCountEqual(map(route, sent.signals), [("1", "0"), ("2", "0")])
    self.assertEqual(
      sent.placement.table().splitlines()[-1],
      "sent between devices each step: 14 tensors, 0.099 MB",
    )

  @parameterized.named_parameters(
    ("cnn", "cnn", "stage:3"),
    ("deepfm", "deepfm", "stage:2"),
    ("mlp_adam", "mlp_adam", "stage:3"),
  )
  def test_measured_is_close_to_planned(self, name, mesh):
    sent = train_a_step(self, name, mesh)
    planned = len(sent.placement.transfers)
    self.assertBetween(len(sent.measured), planned - 3, planned + 3)

  def test_one_device_sends_nothing(self):
    sent = train_a_step(self, "cnn", "stage:1")
    self.assertEmpty(sent.placement.transfers)
    self.assertEmpty(sent.measured + sent.signals)
    self.assertStartsWith(sent.placement.table().splitlines()[-1], "all")


class BytesTest(absltest.TestCase):
  def test_a_batch_hidden_in_a_reshape_counts(self):
    """The graph knows [?, 16] only, of what is [batch x 12, 16]."""
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [None, 12, 16])
      net = v1.layers.dense(tf.reshape(x, [-1, 16]), 4)
      gradient = tf.gradients(tf.reduce_sum(net * net), net)[0]
      sizes = costs.nominal_bytes(graph.get_operations())
    self.assertEqual(net.shape.as_list(), [None, 4])
    self.assertEqual(sizes[x.name], BATCH * 12 * 16 * 4)
    self.assertEqual(sizes[net.name], BATCH * 12 * 4 * 4)
    self.assertEqual(sizes[gradient.name], BATCH * 12 * 4 * 4)

  def test_a_tensor_is_sent_once_to_each_device(self):
    with tf.Graph().as_default() as graph:
      with tf.device("/cpu:0"):
        x = v1.placeholder(tf.float32, [3, 5], name="x")
      for device in ("/cpu:1", "/cpu:1", "/cpu:2"):
        with tf.device(device):
          tf.identity(x)
      sent = transfers.planned_transfers(graph.get_operations())
    self.assertCountEqual(
      sent,
      [
        transfers.Transfer("x:0", "/device:CPU:0", "/device:CPU:1", 60),
        transfers.Transfer("x:0", "/device:CPU:0", "/device:CPU:2", 60),
      ],
    )


if __name__ == "__main__":
  absltest.main()
