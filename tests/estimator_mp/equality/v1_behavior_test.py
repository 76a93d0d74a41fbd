"""Programs that switch TensorFlow 2's behaviour off are sharded all the same.

Their variables are references (`VariableV2`), their loops and conditions
`Enter`, `Switch` and `Merge` ops. The switch is for a whole process.
"""

import estimator_mp
from estimator_mp.capture import resources
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.equality import transparency
from tests.estimator_mp.models import (
  catalogue,
  comparison,
  data,
  networks,
  registry,
)

import numpy as np
import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

tf.disable_v2_behavior()

_RULES = ((r"^a/", 0), (r"^b/", 1), (r".", 2))


def _train():
  return networks.minimize(tf.train.AdamOptimizer(0.01))


def partitioned(features, labels, mode):
  """Variables in pieces: an embedding's rows, and a matrix's columns."""
  with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3)):
    table = tf.get_variable("table", [50, 8])
    net = tf.nn.embedding_lookup(table, features["ids"], "div")
  net = tf.reduce_mean(net, axis=1)
  with tf.variable_scope("b", partitioner=tf.fixed_size_partitioner(2, axis=1)):
    kernel = tf.get_variable("kernel", [8, 8])
    net = tf.tanh(tf.matmul(net, kernel))
  logits = tf.layers.dense(net, 1, name="c")
  return networks.spec(
    mode, logits, labels, networks.minimize(tf.train.AdagradOptimizer(0.1))
  )


def updates_before_gradients(features, labels, mode):
  """A loop's gradients are asked for where averages have been updated.

  The averages are on the first device, the loop is on another one.
  """
  net = tf.layers.dense(features["x"], 8, name="a/dense")
  training = mode == networks.TRAIN
  net = tf.layers.batch_normalization(net, training=training, name="a/norm")
  net = tf.reshape(net, [-1, 2, 4])
  with tf.variable_scope("b"):
    cell = tf.nn.rnn_cell.BasicLSTMCell(6)
    _, state = tf.nn.dynamic_rnn(cell, net, dtype=tf.float32)
  logits = tf.layers.dense(state.h, 1, name="c")

  def train(loss):
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
      return _train()(loss)

  return networks.spec(mode, logits, labels, train)


def read_in_a_branch(features, labels, mode):
  """A branch reads a resource variable that another device holds."""
  net = tf.layers.dense(features["x"], 8, tf.tanh, name="a/dense")
  with tf.variable_scope("a"):
    scale = tf.get_variable("scale", [8], use_resource=True)
  with tf.variable_scope("b"):
    kernel = tf.get_variable("kernel", [8, 8])
    net = tf.matmul(net, kernel)
    positive = tf.reduce_mean(net) > 0
    net = tf.cond(positive, lambda: net * scale, lambda: net - scale)
  logits = tf.layers.dense(net, 1, name="c")
  return networks.spec(mode, logits, labels, _train())


def asked_beside_the_loss(features, labels, mode):
  """Gradients are asked for in a block that colocates, as K-FAC does it."""
  net = tf.layers.dense(features["x"], 8, tf.tanh, name="a/dense")
  net = tf.layers.dense(net, 8, tf.tanh, name="b/dense")
  logits = tf.layers.dense(net, 1, name="c")

  def train(loss):
    optimizer = tf.train.AdamOptimizer(0.01)
    with tf.colocate_with(logits.op):
      pairs = optimizer.compute_gradients(loss)
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())

  return networks.spec(mode, logits, labels, train)


def read_on_another_stage(features, labels, mode):
  """What the gradient of the second lookup asks is colocated with both."""
  table = tf.get_variable("table", [51, 8])
  ids = tf.sparse.from_dense(features["ids"][:, :5] + 1)
  net = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean")
  rows = tf.gather(table, tf.RaggedTensor.from_sparse(ids))
  net = tf.concat([net, tf.reduce_sum(rows, 1)], 1)
  for name in "abce":
    net = tf.layers.dense(net, 16, tf.tanh, name=name)
  logits = tf.layers.dense(net, 1, name="d")
  return networks.spec(mode, logits, labels, _train())


class V1BehaviorTest(transparency.TransparencyTestCase):
  def test_variables_are_references(self):
    config = estimator_mp.ShardingConfig("stage:3")
    sharded = estimator_mp.shard_model_fn(updates_before_gradients, config)
    with tf.Graph().as_default() as graph:
      tf.train.create_global_step()
      batches = tf.data.make_one_shot_iterator(data.input_fn())
      features, labels = batches.get_next()
      sharded(features, labels, networks.TRAIN, estimator_mp.run_config(config))
      types = {op.type for op in graph.get_operations()}
    self.assertContainsSubset({"VariableV2", "Switch", "Merge"}, types)
    self.assertNoCommonElements({"VarHandleOp", "If"}, types)

  def test_on_a_model_axis_variables_are_resources(self):
    """A reference cannot be split; names and checkpoints are the same."""
    rules = [("(a|b)/dense/kernel", 1)]
    config = estimator_mp.ShardingConfig("model:2", split=rules)
    plain, run = runs.plain_and_sharded(self, asked_beside_the_loss, config)
    runs.assert_same_training(self, run, plain, rtol=1e-5)
    for part, contents in enumerate(run.devices.values()):
      shards = [f"{layer}/dense/kernel/part_{part}" for layer in "ab"]
      self.assertContainsSubset(shards, contents.variables)

  def test_a_lookup_need_not_be_where_its_table_is(self):
    config = estimator_mp.ShardingConfig(
      "stage:2", placement=[("RaggedGather", 1), ("table|^[ab]/", 0), (".", 1)]
    )
    plain, run = runs.plain_and_sharded(self, read_on_another_stage, config)
    runs.assert_same_training(self, run, plain, rtol=1e-6)

  def test_resources_have_the_initialized_value_of_references(self):
    with tf.Graph().as_default(), resources.all_resources():
      first = tf.Variable(tf.random.normal([3], seed=5), use_resource=False)
      second = tf.Variable(2.0 * first.initialized_value())
      self.assertEqual(first.handle.op.type, "VarHandleOp")
      with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other = session.run([first, second])
    np.testing.assert_allclose(other, 2.0 * one)

  def test_resources_are_true_as_references_are(self):
    """A program writes `average if average else variable`."""
    with tf.Graph().as_default() as graph, resources.all_resources():
      variable = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
      averages = tf.train.ExponentialMovingAverage(0.5)
      averages.apply([variable])
      ops = len(graph.get_operations())
      self.assertTrue(averages.average(variable))
      self.assertEqual(averages.average(variable).handle.op.type, "VarHandleOp")
      self.assertLen(graph.get_operations(), ops)

  @parameterized.named_parameters(
    tiers.sample(
      [
        (made.__name__, registry.Model(made, _RULES))
        for made in (
          partitioned,
          updates_before_gradients,
          read_in_a_branch,
          asked_beside_the_loss,
        )
      ]
    )
  )
  def test_old_programs(self, model):
    self.assert_transparent(model, trains_only=True)

  # Left out is tf_keras' Adam: it fails plain on references.
  @tiers.slow
  @parameterized.parameters(tiers.sample(("cnn", "deepfm")))
  def test_networks(self, name):
    self.assert_transparent(catalogue.MODELS[name], trains_only=True)

  @parameterized.parameters(
    tiers.sample(
      [
        ("loops", "stage:2*4"),
        ("accumulated_by_hand", "data:2"),
        ("batch_normalisation", "data:2,stage:2*2"),
        ("cnn_with_batch_norm", "stage:2*4"),
        ("cond_on_global_step", "stage:2*4"),
        ("counted_examples", "data:2"),
        ("dynamic_rnn", "stage:2*4"),
        ("last_relevant_output", "data:2,stage:2*2"),
        ("loss_by_cond_on_the_batch", "data:2,stage:2*2"),
        ("map_over_examples", "data:2"),
        ("scan_over_examples", "stage:2*4"),
        ("summary_of_streaming_metric", "model:2"),
      ]
    )
  )
  def test_models_of_the_catalogue(self, name, mesh):
    model, size = catalogue.MODELS[name], registry.OPEN
    config = comparison.sharding_of(mesh)
    plain = comparison.train(model, size, 4)
    found = comparison.compare(model, size, plain, config)
    self.assertEqual(found, comparison.Outcome("equal"))

  @tiers.slow
  @parameterized.parameters(("data:2", 1), ("stage:2", 2))
  def test_batches_of_any_size(self, mesh, num_micro_batches):
    """The sizes of tensors are no numbers, but `Dimension` objects here."""
    model_fn = catalogue.MODELS["canned"].model_fn
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    plain, run = runs.plain_and_sharded(self, model_fn, config)
    runs.assert_same_training(self, run, plain, rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
