"""What a step really sends is what the plan says.

But for rows of tables: how many of them are whose is in the ids of a batch.
"""

import re

import estimator_mp
from estimator_mp import devices
from estimator_mp.graph import shapes
from estimator_mp.observe import executed_graph
from estimator_mp.plan import sharding_plan
from tests.estimator_mp import zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

# Unknown dimensions are planned for as these.
_BATCH = shapes.NOMINAL_BATCH
_ROWS = re.compile("/split/.*(embedding_lookup/|DynamicPartition|GatherV2)")


class TrafficTest(parameterized.TestCase):
  @parameterized.parameters(
    ("mlp_sgd", 2),
    ("mlp_adam", 3),
    ("cnn", 2),
    ("transformer", 2),
    ("keras_functional", 3),
  )
  def test_bytes_of_a_step_are_those_of_the_plan(self, name, num_parts):
    model = zoo.PURE_MODELS[name]
    examples = {
      key: np.resize(value, [_BATCH, *value.shape[1:]])
      for key, value in {**zoo.FEATURES, "labels": zoo.LABELS}.items()
      if value.dtype.kind != "S"
    }
    with tf.Graph().as_default():
      fed = {
        key: v1.placeholder(value.dtype, [None, *value.shape[1:]])
        for key, value in examples.items()
      }
      # A placeholder that is fed has another name where it runs.
      features = {key: tf.identity(tensor) for key, tensor in fed.items()}
      labels = features.pop("labels")
      v1.train.get_or_create_global_step()
      config = estimator_mp.ShardingConfig(mesh=f"model:{num_parts}")
      sharded = estimator_mp.shard_model_fn(model.model_fn, config)
      arguments = {} if model.params is None else {"params": model.params}
      mode = tf.estimator.ModeKeys.TRAIN
      spec = sharded(features, labels, mode, **arguments)
      plan = sharding_plan.get_plan(v1.get_default_graph())
      feed = {fed[key]: value for key, value in examples.items()}
      measured = _bytes_sent(spec.train_op, feed, num_parts)
    planned = [x for x in plan.splits.sent if x.kind != "exchange"]
    self.assertNotEmpty(planned)
    self.assertEqual(sum(x.num_bytes for x in planned), measured)


def _bytes_sent(train_op, feed, num_parts):
  """Returns the bytes of the tensors that a step sends between devices."""
  names = [f"/device:CPU:{i}" for i in range(num_parts)]
  devices.check_local_devices_exist(names)
  config = v1.ConfigProto(
    device_count={"CPU": num_parts}, allow_soft_placement=False
  )
  # Its optimizer renames and joins ops.
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  config.graph_options.optimizer_options.opt_level = -1
  start = tf.group(
    v1.global_variables_initializer(), v1.local_variables_initializer()
  )
  with v1.Session(config=config) as session:
    session.run(start)
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    session.run(train_op, feed, options, metadata)
    sent = executed_graph.measured_transfers(metadata.partition_graphs)
    tensors = [
      f"{x.op}:{x.output}"
      for x in sent
      if not (x.is_signal or _ROWS.search(x.op))
    ]
    values = session.run({x: x for x in tensors}, feed)
  return sum(values[x].nbytes for x in tensors)


if __name__ == "__main__":
  absltest.main()
