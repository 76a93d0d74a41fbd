"""What is sent between devices: as planned, as shown, and as measured."""

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.config import placement
from estimator_mp.observe import executed_graph
from estimator_mp.placement import transfers
from tests import tiers
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import catalogue, data

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class PlacementReader(tf.estimator.SessionRunHook):
  """Keeps what is planned, and which ops are constants."""

  def begin(self):
    graph = v1.get_default_graph()
    self.placement = estimator_mp.get_placement(graph)
    ops = graph.get_operations()
    self.constants = {op.name for op in ops if op.type == "Const"}


def route(transfer):
  return transfer.source[-1], transfer.destination[-1]


class MeasuredTest(parameterized.TestCase):
  def _train_a_step(self, name, mesh):
    """Returns the hooks of a step: what was planned, and what was sent."""
    model = catalogue.NETWORKS[name]
    config = estimator_mp.ShardingConfig(mesh)
    reader, hook = PlacementReader(), toolbox.PlacementVerificationHook()
    self.assertEqual(hook.transfers, ())
    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      self.create_tempdir().full_path,
    )
    estimator.train(data.input_fn, steps=1, hooks=[reader, hook])
    return reader, hook

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn", "cnn", "stage:3"),
        ("deepfm", "deepfm", "stage:2"),
        ("mlp_adam", "mlp_adam", "stage:3"),
        ("transformer", "transformer", "stage:3"),
      ]
    ),
  )
  def test_measured_is_close_to_planned(self, name, mesh):
    """But for constants: TensorFlow 2.21 makes small ones where they are."""
    reader, hook = self._train_a_step(name, mesh)
    planned = [
      x
      for x in reader.placement.transfers
      if x.tensor.partition(":")[0] not in reader.constants
    ]
    measured = [
      x
      for x in hook.transfers
      if not x.is_signal and x.op not in reader.constants
    ]
    self.assertBetween(len(measured), len(planned) - 3, len(planned) + 3)

  def test_one_device_sends_nothing(self):
    reader, hook = self._train_a_step("cnn", "stage:1")
    self.assertEmpty(reader.placement.transfers)
    self.assertEmpty(hook.transfers)
    self.assertStartsWith(reader.placement.table().splitlines()[-1], "all")


class BytesTest(absltest.TestCase):
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
        placement.Transfer("x:0", "/device:CPU:0", "/device:CPU:1", 60),
        placement.Transfer("x:0", "/device:CPU:0", "/device:CPU:2", 60),
      ],
    )


def _adder(mask, low=-10000.0):
  return tf.expand_dims((1.0 - mask) * low, axis=[1])


def _before_and_after_a_write(x):
  variable = parts.state("v", [5])
  before = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=x.dtype)
  with tf.control_dependencies([variable.assign(before + 1.0)]):
    after = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=x.dtype)
  return [before, after]


class SavingsTest(parameterized.TestCase):
  def test_reads_of_two_branches_are_not_one(self):
    """Of one of them nothing is there."""
    with tf.Graph().as_default() as graph:
      with tf.device("/cpu:0"):
        variable = parts.state("v", [5])
        test = v1.placeholder(tf.bool, [])
        reads = [
          tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
          for handle in tf.raw_ops.Switch(data=variable.handle, pred=test)
        ]
      with tf.device("/cpu:1"):
        for read in reads:
          tf.negative(read)
      found = transfers.find_savings(graph.get_operations())
    self.assertEmpty(found.shared_values)

  @parameterized.named_parameters(
    ("reads_of_a_variable", lambda x: 3 * [parts.weight("v", [5])], [20]),
    ("reads_of_two_values", _before_and_after_a_write, [20, 20]),
    (
      "what_layers_compute_again",  # As each one of BERT's does of the mask.
      lambda x: [_adder(x), _adder(x), _adder(x, low=-1.0)],
      [8 * 10 * 4] * 2,
    ),
    ("small_constant", lambda x: 2 * [tf.constant([3.0])], []),
    ("scalar_that_may_be_fed", lambda x: [tf.constant(0.1)], [4]),
    ("large_constant", lambda x: [tf.zeros([1000])], [4000]),
    (
      "scalars_that_are_stacked",
      lambda x: [tf.reduce_sum(x), tf.reduce_max(x), tf.reduce_min(x)],
      [12],
      tf.stack,
    ),
  )
  def test_bytes_that_the_next_stage_gets(self, make, expected, read=None):
    def model_fn(features, labels, mode):
      del labels
      with estimator_mp.stage(0):
        made = make(features)
      with estimator_mp.stage(1):
        tensors = made if read is None else [read(made)]
        loss = tf.add_n([tf.reduce_sum(tf.exp(x)) for x in tensors])
      return tf.estimator.EstimatorSpec(mode, loss=loss)

    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      x = v1.placeholder(tf.float32, [8, 10])
      config = estimator_mp.ShardingConfig("stage:2")
      estimator_mp.shard_model_fn(model_fn, config)(x, None, "eval")
      sent = estimator_mp.get_placement(graph).transfers
    self.assertEqual([x.num_bytes for x in sent], expected)


class SignalsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", "stage:3", {}),
        ("replicas", "data:2,stage:2", {}),
        ("three_replicas", "data:3", {}),
        ("owners", "data:2,stage:2", {"optimizer_state": "sharded"}),
        ("micro_batches", "data:2,stage:2", {"num_micro_batches": 2}),
      ]
    ),
  )
  def test_a_step_signals_once_from_device_to_device(self, mesh, fields):
    """It was one signal for each update of a mirror: 8 of mlp_adam."""
    model = catalogue.NETWORKS["mlp_adam"]
    batch = ({"x": data.FEATURES["x"][:24]}, data.LABELS[:24])
    config = estimator_mp.ShardingConfig(mesh, **fields)
    program = programs.Program(model.model_fn, config, batch, model.params)
    partitions = program.trace(batch).partition_graphs
    sent = executed_graph.measured_transfers(partitions)
    signals = [route(x) for x in sent if x.is_signal]
    self.assertCountEqual(signals, set(signals))


if __name__ == "__main__":
  absltest.main()
