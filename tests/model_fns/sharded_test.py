"""What the `config` of a factory may be."""

import estimator_mp
from model_fns import sharded

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_DEVICES = ("/device:CPU:0", "/device:CPU:1")


def _model_fn(features, labels, mode, config=None):
  """Two layers, times the number of devices that it is built for."""
  del labels, config
  mesh = estimator_mp.get_mesh()
  ones = v1.ones_initializer()
  for name in ("first", "second"):
    features = tf.matmul(
      features, v1.get_variable(name, [2, 2], initializer=ones)
    )
  predictions = features * float(0 if mesh is None else mesh.size)
  return tf.estimator.EstimatorSpec(mode, {"y": predictions})


def _prediction(model_fn):
  """What the model says of two ones."""
  session_config = v1.ConfigProto(device_count={"CPU": 2})
  config = tf.estimator.RunConfig(session_config=session_config)
  with tf.Graph().as_default(), v1.Session(config=session_config) as session:
    features = v1.placeholder_with_default([[1.0, 1.0]], [None, 2])
    v1.train.create_global_step()
    spec = model_fn(features, None, "infer", config=config)
    session.run(v1.global_variables_initializer())
    return session.run(spec.predictions["y"])[0].tolist()


class ShardedTest(parameterized.TestCase):
  @parameterized.parameters(
    (None, 0),
    ("stage:1", 1),
    (estimator_mp.Mesh.create("stage:2", _DEVICES), 2),
    (
      estimator_mp.ShardingConfig("stage:2", _DEVICES, verify_placement=False),
      2,
    ),
  )
  def test_the_config_says_the_devices(self, config, size):
    made = sharded.model_fn(_model_fn, config)
    self.assertEqual(_prediction(made), [4.0 * size] * 2)

  def test_another_mesh_around_it_is_the_one_that_counts(self):
    made = sharded.model_fn(_model_fn, "stage:1")
    outer = estimator_mp.ShardingConfig("stage:2", _DEVICES)
    self.assertEqual(
      _prediction(estimator_mp.shard_model_fn(made, outer)), [8.0, 8.0]
    )

  def test_says_what_a_config_may_be(self):
    with self.assertRaisesRegex(TypeError, "config is 3; pass an estimator_mp"):
      sharded.model_fn(_model_fn, 3)
    with self.assertRaisesRegex(ValueError, "stage"):
      sharded.model_fn(_model_fn, "stages:2")


if __name__ == "__main__":
  absltest.main()
