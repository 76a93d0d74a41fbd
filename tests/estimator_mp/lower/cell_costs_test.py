"""What the cells of a real step have besides the model's own ops."""

import collections

import estimator_mp
from estimator_mp.observe import executed_graph
from estimator_mp.planning import sharding_plan
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_LAYERS = 8
_STAGES = 2
_WIDTH = 4
_FEWER, _MORE = 4, 8
_SCHEDULES = ("1f1b", "gpipe", "zb1p")
_ORDER = "estimator_mp/schedule/"
# The first op of a forward pass waits for all sums and what is sent back, and
# so do the sums, which the pass back ends with; what it adds is an end, too.
_MOST_WAITS = 16


def _mlp(features, labels, mode):
  net = features
  for layer in range(_LAYERS):
    net = v1.layers.dense(net, _WIDTH, tf.tanh, name=f"layer_{layer}")
  return _spec(net, labels, mode)


def _tied(features, labels, mode):
  """All layers of a stage have one weight."""
  net = features
  for stage in range(_STAGES):
    with v1.variable_scope(f"layer_{stage * _LAYERS // _STAGES}"):
      weight = v1.get_variable("weight", [_WIDTH, _WIDTH])
    for _ in range(_LAYERS // _STAGES):
      net = tf.tanh(tf.matmul(net, weight))
  return _spec(net, labels, mode)


def _spec(net, labels, mode):
  loss = tf.reduce_mean((net - labels) ** 2)
  return parts.spec(mode, loss)


def _step(model_fn, schedule, micro_batches):
  """Returns the graph of a training step, and what a session made of it.

  Args:
    model_fn: The model_fn.
    schedule: The name of the schedule.
    micro_batches: How many.
  """
  config = estimator_mp.ShardingConfig(
    f"stage:{_STAGES}",
    placement=((r"^layer_[0-3]/", 0), (r"^layer_[4-7]/", 1)),
    num_micro_batches=micro_batches,
    schedule=schedule,
  )
  batch = np.random.RandomState(0).randn(16, _WIDTH).astype(np.float32)
  with tf.Graph().as_default() as graph:
    v1.train.create_global_step()
    data = tf.data.Dataset.from_tensors((batch, batch)).repeat()
    features, labels = v1.data.make_one_shot_iterator(data).get_next()
    run_config = estimator_mp.run_config(config)
    spec = estimator_mp.shard_model_fn(model_fn, config)(
      features=features,
      labels=labels,
      mode=tf.estimator.ModeKeys.TRAIN,
      config=run_config,
    )
    initialize = v1.global_variables_initializer()
    with v1.Session(config=run_config.session_config) as session:
      session.run(initialize)
      metadata = v1.RunMetadata()
      options = v1.RunOptions(output_partition_graphs=True)
      session.run(spec.train_op, options=options, run_metadata=metadata)
  return graph, metadata.partition_graphs


def _nodes(partitions, *types):
  """Returns the nodes of some types that a session has run."""
  return [x for part in partitions for x in part.node if x.op in types]


def _costs(schedule, micro_batches):
  """Returns how many cells a step has, and what they have besides ops."""
  graph, partitions = _step(_mlp, schedule, micro_batches)
  (cells,) = sharding_plan.get_plan(graph).pipeline.cells
  return collections.Counter(
    cells=len(set(cells.values())),
    waits=sum(
      op.name.startswith(_ORDER) or before.name.startswith(_ORDER)
      for op in graph.get_operations()
      for before in op.control_inputs
    ),
    sends=len(executed_graph.measured_transfers(partitions)),
    joins=len(_nodes(partitions, "NoOp")),
  )


class CellCostsTest(parameterized.TestCase):
  @parameterized.parameters(*_SCHEDULES)
  def test_what_micro_batches_add(self, schedule):
    fewer, more = (_costs(schedule, count) for count in (_FEWER, _MORE))
    added = more.copy()
    added.subtract(fewer)
    # What a stage makes for the next one, and what comes back.
    self.assertEqual(added["sends"], 2 * (_STAGES - 1) * (_MORE - _FEWER))
    # TensorFlow's optimizer lets ops wait for what is behind most joins.
    self.assertLess(added["joins"], added["cells"] / 3)
    self.assertLessEqual(added["waits"], _MOST_WAITS * added["cells"])

  @parameterized.parameters(*_SCHEDULES)
  def test_what_micro_batches_add_up_is_rounded_alike(self, schedule):
    """Waits that others imply keep TensorFlow from merging sums of sums.

    The gradient of a weight that is used often is a sum. Were it added to the
    others term by term, the last micro-batch would be rounded otherwise than
    those before it.
    """
    _, partitions = _step(_tied, schedule, _FEWER)
    terms = collections.Counter(
      sum(not name.startswith("^") for name in node.input)
      for node in _nodes(partitions, "Add", "AddN", "AddV2")
    )
    self.assertEqual(max(terms), _LAYERS // _STAGES)
    self.assertEqual(terms[_LAYERS // _STAGES], _STAGES * _FEWER)
    self.assertEqual(terms[2], _STAGES * (_FEWER - 1))


if __name__ == "__main__":
  absltest.main()
