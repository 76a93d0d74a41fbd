"""The plan of a step is all that lowering reads: it goes to JSON and back."""

import json
import random

import estimator_mp
from estimator_mp import partitioner
from estimator_mp.lower import lowering
from estimator_mp.planning.step_plan import StepPlan
from tests.estimator_mp import parts, session_configs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_MESHES = {
  "stages": {
    "mesh": "stage:2",
    "num_micro_batches": 3,
    "recompute": "always",
    "placement": [("^last", 1), (".*", 0)],
  },
  "zero_bubble": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "schedule": "zb1p",
    "weight_gradients": "batched",
    "placement": [("^last", 1), (".*", 0)],
  },
  "replicas": {"mesh": "data:2", "variables": "shared"},
  "model": {"mesh": "model:2", "num_micro_batches": 2},
  "all": {"mesh": "data:2,stage:2,model:2", "num_micro_batches": 2},
}


def _program():
  """Returns the input of a small model, and what a step of it fetches."""
  random.seed(3)
  _v1.set_random_seed(3)
  x = _v1.placeholder(tf.float32, [None, 6])
  net = _v1.layers.dense(x, 8, tf.tanh, name="first")
  net = _v1.layers.batch_normalization(net, training=True)
  net = _v1.layers.dropout(net, 0.5, seed=4, training=True)
  loss = tf.reduce_mean(tf.square(_v1.layers.dense(net, 2, name="last")))
  optimizer = _v1.train.GradientDescentOptimizer(0.1)
  with tf.control_dependencies(_v1.get_collection("update_ops")):
    train_op = optimizer.minimize(loss)
  return x, [loss, train_op]


def _plan(name):
  """Returns what decides on the model, and its input."""
  x, fetches = _program()
  config = estimator_mp.ShardingConfig(draws="whole", **_MESHES[name])
  made = partitioner.Partitioner(
    parts.inputs(x), fetches, config, config.create_mesh()
  )
  return made, x


def _losses(x, fetches):
  """Returns the losses of some steps."""
  options = session_configs.config(device_count={"CPU": 4})
  with _v1.Session(config=options) as session:
    session.run(_v1.global_variables_initializer())
    feed = {x: np.linspace(-1, 1, 42).reshape(7, 6)}
    return [session.run(fetches, feed)[0] for _ in range(3)]


class StepPlanTest(parameterized.TestCase):
  def test_the_same_model_has_the_same_plan_and_graph(self):
    """TensorFlow has control inputs in the order of addresses."""
    plans, graphs = [], []
    for _ in range(3):
      with tf.Graph().as_default() as graph:
        made, _ = _plan("all")
        plans.append(made.plan)
        made.lower()
        ops = graph.get_operations()
      graphs.append([(op.name, *(x.name for x in op.inputs)) for op in ops])
    for plan, nodes in zip(plans, graphs, strict=True):
      self.assertEqual(plan, plans[0])
      self.assertEqual(nodes, graphs[0])

  def test_the_plan_adds_no_copy_of_a_slice(self):
    with tf.Graph().as_default() as graph:
      _plan("stages")
      names = [op.name for op in graph.get_operations()]
    self.assertFalse([name for name in names if name.startswith("slice_")])

  @parameterized.parameters("stages", "zero_bubble", "replicas", "model")
  def test_lowering_reads_nothing_else(self, name):
    with tf.Graph().as_default():
      made, x = _plan(name)
      text = json.dumps(made.plan.to_dict())
      plan = StepPlan.from_dict(json.loads(text))
      self.assertEqual(plan, made.plan)
      self.assertNotEmpty(plan.parts)
      lookups = made.model_axis and made.model_axis.lookups
      lowered = lowering.Lowering(made.step, plan, made.replicas, lookups)
      lowered.run()
      losses = _losses(x, lowered.fetches)
    with tf.Graph().as_default():
      np.testing.assert_allclose(losses, _losses(*_program()), 1e-5)

  @parameterized.parameters(
    (("stages",), [], "the plan.stages is .*object"),
    (("schedule", "rows", 0, 0, "phase"), "SIDEWAYS", "FORWARD, BACKWARD"),
    (("mesh", "devices"), [1], r"devices\[0\] is 1, .*str"),
    (("reshards", 0, "num_bytes"), [2], r"num_bytes: \[2\] is no size"),
  )
  def test_what_is_no_plan_is_refused(self, path, value, message):
    with tf.Graph().as_default():
      values = json.loads(json.dumps(_plan("stages")[0].plan.to_dict()))
    place = values
    for key in path[:-1]:
      place = place[key]
    place[path[-1]] = value
    with self.assertRaisesRegex(ValueError, message):
      StepPlan.from_dict(values)


if __name__ == "__main__":
  absltest.main()
