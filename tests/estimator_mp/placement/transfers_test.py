"""What is sent between devices: as planned, as shown, and as measured."""

import dataclasses
from typing import Any

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.config import placement
from estimator_mp.lower import sends
from estimator_mp.observe import executed_graph
from estimator_mp.placement import costs, transfers
from tests import tiers
from tests.estimator_mp import programs, runs, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
BATCH = 32  # Where a graph does not know the batch.


@dataclasses.dataclass(frozen=True)
class Sent:
  """The placement of a graph, and what its first step sent."""

  placement: toolbox.Placement
  measured: list[executed_graph.MeasuredTransfer]
  signals: list[executed_graph.MeasuredTransfer]


class PlacementReader(tf.estimator.SessionRunHook):
  placement: Any = None

  def begin(self):
    self.placement = estimator_mp.get_placement(v1.get_default_graph())


def train_a_step(test, name, mesh) -> Sent:
  model = zoo.MODELS[name]
  config = estimator_mp.ShardingConfig(mesh)
  reader = PlacementReader()
  hook = toolbox.PlacementVerificationHook()
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


@tiers.newest_only
class MeasuredTest(parameterized.TestCase):
  @tiers.slow
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
      "sent between devices each step: 14 tensors, 98.6 kB",
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn", "cnn", "stage:3"),
        ("deepfm", "deepfm", "stage:2"),
        ("mlp_adam", "mlp_adam", "stage:3"),
      ]
    ),
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


@tiers.newest_only
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
        placement.Transfer("x:0", "/device:CPU:0", "/device:CPU:1", 60),
        placement.Transfer("x:0", "/device:CPU:0", "/device:CPU:2", 60),
      ],
    )


class SavingsTest(absltest.TestCase):
  """What is planned for small graphs, and what they read after lowering."""

  def setUp(self):
    super().setUp()
    self._graph = self.enterContext(tf.Graph().as_default())

  def _find(self):
    return transfers.find_savings(self._graph.get_operations())

  def _reduce(self):
    sends.reduce_transfers(self._find())
    return self._find()

  def test_one_read_of_a_variable_stands_for_all_of_a_device(self):
    with tf.device("/cpu:0"):
      variable = v1.get_variable("v", [], use_resource=True)
      reads = [_read(variable) for _ in range(3)]
    with tf.device("/cpu:1"):
      readers = [tf.exp(x).op for x in reads]
    with tf.device("/cpu:2"):
      other = tf.exp(reads[1]).op
    (shared,) = self._find().shared_reads
    self.assertIs(shared.value, reads[0])
    self.assertEqual([x.op for x in shared.readers], readers[1:])
    self.assertEmpty(self._reduce().shared_reads)
    self.assertEqual([x.inputs[0].name for x in readers], 3 * [reads[0].name])
    self.assertIs(other.inputs[0], reads[1])

  def test_reads_after_different_ops_stay(self):
    with tf.device("/cpu:0"):
      variable = v1.get_variable("v", [], use_resource=True)
      first = _read(variable)
      with tf.control_dependencies([variable.assign(1.0)]):
        second = _read(variable)
    with tf.device("/cpu:1"):
      _ = [tf.exp(first), tf.exp(second)]
    self.assertEmpty(self._find().shared_reads)

  def test_what_is_computed_again_is_sent_once(self):
    """As by each layer of BERT, of the mask: 8 layers sent it 8 times."""

    def adder(mask, low=-10000.0):
      return tf.expand_dims((1.0 - mask) * low, axis=[1])

    mask = v1.placeholder(tf.float32, [None, 3, 3])
    with tf.device("/cpu:0"):
      adders = [adder(mask) for _ in range(3)]
      other = adder(mask, low=-1.0)
    with tf.device("/cpu:1"):
      readers = [tf.exp(x).op for x in adders]
      _ = tf.exp(other)
    with tf.device("/cpu:0"):
      beside = tf.exp(adders[1]).op
    with tf.device("/cpu:2"):
      alone = tf.exp(adders[2]).op
    (shared,) = self._find().shared_values
    self.assertIs(shared.value, adders[0])
    self.assertEqual([x.op for x in shared.readers], readers[1:])
    self.assertEmpty(self._reduce().shared_values)
    self.assertEqual([x.inputs[0].name for x in readers], 3 * [adders[0].name])
    self.assertIs(beside.inputs[0], adders[1])
    self.assertIs(alone.inputs[0], adders[2])

  def test_a_device_has_its_own_small_constants(self):
    with tf.device("/cpu:0"):
      small, large = tf.constant([3.0]), tf.zeros([1000])
    with tf.device("/cpu:1"):
      square, _ = tf.multiply(small, small).op, tf.exp(large)
    with tf.device("/cpu:0"):
      tf.exp(small)
    (copied,) = self._find().copied_constants
    self.assertEqual(copied.constant, small.op)
    self.assertEqual(copied.device, square.device)
    self.assertEqual(
      copied.readers, tuple(transfers.Reader(square, i) for i in (0, 1))
    )
    self.assertEmpty(self._reduce().copied_constants)
    for read in square.inputs:
      self.assertEqual(read.device, square.device)
      self.assertEqual(tf.get_static_value(read), [3.0])

  def test_a_constant_that_may_be_fed_is_sent(self):
    with tf.device("/cpu:0"):
      rate = tf.constant(0.1, name="learning_rate")
    with tf.device("/cpu:1"):
      tf.exp(rate)
    self.assertEmpty(self._find().copied_constants)

  def test_a_file_of_an_export_has_one_path(self):
    """A SavedModel says where the file is by feeding that constant."""
    with tf.device("/cpu:0"):
      path = tf.constant("words.txt")
    v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, path)
    with tf.device("/cpu:1"):
      tf.strings.length(path)
    self.assertEmpty(self._find().copied_constants)

  def test_scalars_of_a_device_are_stacked_there(self):
    """But for numbers, which are copied, and one that comes alone."""
    scalars = [_ops(f"/cpu:{device}", 1)[0] for device in (1, 0, 1, 2)]
    with tf.device("/cpu:1"):
      constant = tf.constant(3.0, name="stack/4")
    with tf.device("/cpu:0"):
      pack = tf.raw_ops.Pack(
        values=[*(x.outputs[0] for x in scalars), constant], name="stack"
      ).op
    (stacked,) = self._find().stacked_scalars
    self.assertEqual(
      stacked, transfers.StackedScalars(pack, scalars[0].device, (0, 2))
    )
    self.assertEmpty(self._reduce().stacked_scalars)
    self.assertEqual([x.device[-1] for x in pack.inputs], [*"00020"])


def _read(variable):
  return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)


def _ops(device, count):
  """Makes ops that a session cannot fold away."""
  with tf.device(device):
    return [
      tf.identity(v1.placeholder_with_default(float(i), [])).op
      for i in range(count)
    ]


def _wait(device, waits_for):
  with tf.device(device), tf.control_dependencies(waits_for):
    return tf.constant(1.0).op


def _reached(op):
  """Returns what is done once an op is, but for no-ops."""
  found = set()
  todo = [op]
  while todo:
    before = todo.pop()
    if before not in found:
      found.add(before)
      todo += [*before.control_inputs, *(t.op for t in before.inputs)]
  return {x for x in found if x.type != "NoOp"}


class JoinedWaitsTest(parameterized.TestCase):
  def _joined(self, graph):
    return transfers.joined_waits(graph.get_operations())

  def test_several_of_a_device_are_joined_there(self):
    with tf.Graph().as_default() as graph:
      here, there, other = (_ops(f"/cpu:{i}", 2) for i in range(3))
      waiting = _wait("/cpu:0", [*here, *there, other[0]])
      found = self._joined(graph)
      expected = transfers.JoinedWait(
        frozenset(there), "/device:CPU:1", (waiting,), None
      )
      self.assertEqual(found, [expected])
      before = _reached(waiting)
      sends.reduce_transfers(transfers.find_savings(graph.get_operations()))
      self.assertEqual(_reached(waiting), before)
      self.assertEmpty(self._joined(graph))
      self.assertCountEqual(
        [x.device[-1] for x in waiting.control_inputs], "0012"
      )
      config = v1.ConfigProto(device_count={"CPU": 3})
      with v1.Session(config=config) as session:
        self.assertEqual(session.run(waiting.outputs[0]), 1.0)

  def test_who_waits_for_the_same_waits_for_one_join(self):
    with tf.Graph().as_default() as graph:
      there = _ops("/cpu:1", 3)
      waiting = [_wait(f"/cpu:{i}", there) for i in (0, 2, 0, 1)]
      waiting.append(_wait("/cpu:0", there[1:]))
      found = self._joined(graph)
      self.assertEqual(
        [x.waiting for x in found], [tuple(waiting[:3]), (waiting[4],)]
      )
      sends.reduce_transfers(transfers.find_savings(graph.get_operations()))
    first, second, third, _, last = (x.control_inputs for x in waiting)
    self.assertEqual(first, second)
    self.assertEqual(first, third)
    self.assertLen({*first, *last}, 2)

  def test_a_join_that_is_there_is_used(self):
    with tf.Graph().as_default() as graph:
      there = _ops("/cpu:1", 2)
      waiting = _wait("/cpu:0", there)
      with tf.device("/cpu:1"), tf.control_dependencies(there):
        join = tf.no_op()
      (found,) = self._joined(graph)
      self.assertIs(found.join, join)
      sends.reduce_transfers(transfers.find_savings(graph.get_operations()))
    self.assertEqual(waiting.control_inputs, [join])

  def test_a_join_that_waits_for_others_stands_for_these_too(self):
    with tf.Graph().as_default() as graph:
      there, further, here = (_ops(f"/cpu:{i}", 2) for i in (1, 2, 0))
      with tf.device("/cpu:1"), tf.control_dependencies(there + further):
        join = tf.no_op()
      waiting = _wait("/cpu:0", here + there + further)
      before = _reached(waiting)
      sends.reduce_transfers(transfers.find_savings(graph.get_operations()))
      self.assertEqual(_reached(waiting), before)
    self.assertCountEqual(waiting.control_inputs, [*here, join])
    (of_further,) = set(join.control_inputs) - {*there}
    self.assertCountEqual(of_further.control_inputs, further)

  def test_joins_for_the_same_do_not_wait_for_each_other(self):
    with tf.Graph().as_default() as graph:
      ops = _ops("/cpu:1", 2) + _ops("/cpu:2", 2)
      joins = []
      for device in ("/cpu:1", "/cpu:2"):
        with tf.device(device), tf.control_dependencies(ops):
          joins.append(tf.no_op())
      sends.reduce_transfers(transfers.find_savings(graph.get_operations()))
    for join in joins:
      self.assertNoCommonElements(join.control_inputs, joins)
      self.assertLen(join.control_inputs, 3)
      self.assertEqual(_reached(join), _reached(joins[0]))

  @parameterized.named_parameters(("at_the_start", True), ("at_the_end", False))
  def test_an_op_without_a_device(self, waits):
    """A group that model_fn makes waits; an op that waits is nobody's join."""
    with tf.Graph().as_default() as graph:
      there = _ops("/cpu:1" if waits else None, 2)
      _wait(None if waits else "/cpu:0", there)
      self.assertLen(self._joined(graph), int(waits))

  @parameterized.named_parameters(
    ("branch", lambda do: tf.cond(v1.placeholder(tf.bool), do, do)),
    (
      "loop",
      lambda do: tf.while_loop(lambda x: x < 9.0, lambda _: do(), [0.0]),
    ),
  )
  def test_in_branches_and_loops_everything_stays(self, make):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

    def do():
      there = _ops("/cpu:1", 2)
      return _wait("/cpu:0", there).outputs[0]

    with tf.Graph().as_default() as graph:
      make(do)
      self.assertEmpty(self._joined(graph))
    with tf.Graph().as_default() as copy:
      tf.import_graph_def(graph.as_graph_def())
      self.assertEmpty(self._joined(copy))

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
    """It was one signal for each update of a mirror: 8 of mlp_adam.

    Adam's powers are where the first variable is, which replica 1 may own: the
    step waits for mirrors there, and for the powers, which wait for mirrors.
    """
    model = zoo.MODELS["mlp_adam"]
    batch = ({"x": zoo.FEATURES["x"][:24]}, zoo.LABELS[:24])
    config = estimator_mp.ShardingConfig(mesh, **fields)
    program = programs.Program(model.model_fn, config, batch, model.params)
    partitions = program.trace(batch).partition_graphs
    sent = executed_graph.measured_transfers(partitions)
    signals = [route(x) for x in sent if x.is_signal]
    of_powers = [("2", "0")] if "optimizer_state" in fields else []
    self.assertCountEqual(signals, [*set(signals), *of_powers])


if __name__ == "__main__":
  absltest.main()
