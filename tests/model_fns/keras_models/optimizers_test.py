"""Every optimizer of Keras does in a graph what it does in `fit`."""

import estimator_mp
import model_fns
from model_fns.keras_models import optimizers
from tests import tiers
from tests.model_fns.keras_models import fits, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

keras = tf.keras
layers = keras.layers
v1 = tf.compat.v1
_RATES = keras.optimizers.schedules


class _Halved(tf.keras.optimizers.schedules.LearningRateSchedule):
  """A schedule of a class that Keras does not know."""

  def __init__(self, rate):
    self.rate = rate

  def __call__(self, step):
    return self.rate * 0.5 ** tf.cast(step, tf.float32)

  def get_config(self):
    return {"rate": self.rate}


_OPTIMIZERS = {
  "sgd": lambda: keras.optimizers.SGD(0.1, 0.9, nesterov=True),
  "schedule": lambda: keras.optimizers.SGD(_RATES.CosineDecay(0.2, 3)),
  "own_schedule": lambda: keras.optimizers.SGD(_Halved(0.1), clipvalue=0.02),
  "adam": lambda: keras.optimizers.Adam(0.05, amsgrad=True, clipnorm=0.1),
  "decay": lambda: keras.optimizers.Adam(0.05, weight_decay=0.1),
  "global_clip": lambda: keras.optimizers.RMSprop(0.05, global_clipnorm=0.1),
  "averages": lambda: keras.optimizers.Adagrad(
    0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2
  ),
  "adadelta": lambda: keras.optimizers.Adadelta(1.0),
  "adamax": lambda: keras.optimizers.Adamax(0.05),
  "ftrl": lambda: keras.optimizers.Ftrl(0.1),
  "adamw": lambda: keras.optimizers.AdamW(0.05),
  "lion": lambda: keras.optimizers.Lion(0.01),
  "adafactor": lambda: keras.optimizers.Adafactor(0.05),
  "legacy_sgd": lambda: keras.optimizers.legacy.SGD(_Halved(0.1), 0.9),
  "legacy_nadam": lambda: keras.optimizers.legacy.Nadam(0.05),
  "legacy_adam": lambda: keras.optimizers.legacy.Adam(0.05, clipnorm=0.1),
  "legacy_adagrad": lambda: keras.optimizers.legacy.Adagrad(
    _RATES.ExponentialDecay(0.1, 2, 0.5), clipvalue=0.05
  ),
}


def _tables(optimizer):
  """A model with a table, whose gradient lists rows, and with a constraint."""
  words = keras.Input([6], dtype="int32")
  net = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))
  net = layers.Dense(
    4, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.5)
  )(net)
  model = keras.Model(words, layers.Dense(1)(net))
  model.compile(optimizer, "mse")
  return model


class OptimizersTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample([(name, make) for name, make in _OPTIMIZERS.items()])
  )
  def test_weights_are_those_of_fit(self, make):
    case = zoo.Model(lambda: _tables(make()), zoo.WORDS, zoo.NUMBERS)
    model = case.compiled()
    made = fits.estimator(
      model_fns.keras(model), model_dir=self.create_tempdir().full_path
    )
    losses = fits.train(made, case.dataset)
    np.testing.assert_allclose(
      losses, fits.fit(model, case.dataset()), rtol=1e-5
    )
    if getattr(model.optimizer, "use_ema", False):
      return  # `fit` ends with the averages in place of the weights.
    expected = model.get_weights()
    model_fns.load_keras_weights(model, made.model_dir)
    for found, weight in zip(model.get_weights(), expected, strict=True):
      np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-5)

  @parameterized.parameters("schedule", "averages", "legacy_adagrad")
  def test_variables_are_initialized_in_any_order(self, name):
    """A rate's first value is computed from the count of steps."""
    case = zoo.Model(
      lambda: _tables(_OPTIMIZERS[name]()), zoo.WORDS, zoo.NUMBERS
    )
    model_fn = model_fns.keras(case.compiled())
    with tf.Graph().as_default() as graph:
      v1.train.create_global_step()
      words, numbers = v1.data.make_one_shot_iterator(case.dataset()).get_next()
      model_fn(words, numbers, tf.estimator.ModeKeys.TRAIN)
      init = v1.global_variables_initializer().name
      initialized = v1.graph_util.extract_sub_graph(
        graph.as_graph_def(), [init]
      )
    self.assertNotIn("ReadVariableOp", [node.op for node in initialized.node])

  def test_an_optimizer_of_tensorflow_1(self):
    case = zoo.Model(
      lambda: zoo.dense(v1.train.MomentumOptimizer(0.1, 0.9)),
      zoo.ROWS,
      zoo.NUMBERS,
    )
    plain = zoo.Model(
      lambda: zoo.dense(keras.optimizers.legacy.SGD(0.1, 0.9)),
      zoo.ROWS,
      zoo.NUMBERS,
    )
    made = fits.estimator(
      model_fns.keras(case.compiled()),
      model_dir=self.create_tempdir().full_path,
    )
    losses = fits.train(made, case.dataset)
    np.testing.assert_allclose(
      losses, fits.fit(plain.compiled(), plain.dataset()), rtol=1e-6
    )

  @tiers.slow
  def test_an_optimizer_goes_on_from_a_checkpoint(self):
    """Slots, the count of steps and with it the schedule are saved."""

    def make():
      return zoo.dense(keras.optimizers.Adam(_RATES.CosineDecay(0.1, 8)))

    case = zoo.Model(make, zoo.ROWS, zoo.NUMBERS)

    def one_batch():
      return case.dataset().take(1)

    path = self.create_tempdir().full_path
    losses = []
    for _ in range(2):
      made = fits.estimator(model_fns.keras(case.compiled()), model_dir=path)
      losses += fits.train(made, one_batch, 5)
    expected = fits.fit(case.compiled(), one_batch())
    np.testing.assert_allclose(losses, expected, rtol=1e-6)

  @tiers.slow
  def test_slots_are_split_and_placed_as_their_variables(self):
    """The updates of new optimizers are ops of the graph."""
    case = zoo.Model(
      lambda: _tables(keras.optimizers.Adam(0.05, global_clipnorm=0.1)),
      zoo.WORDS,
      zoo.NUMBERS,
    )
    for fields in (
      {"mesh": "stage:2", "num_micro_batches": 4},
      {
        "mesh": "model:2",
        "split": [("embeddings", "div"), ("dense/kernel", 1)],
      },
      {"mesh": "data:2", "optimizer_state": "sharded"},
    ):
      with self.subTest(**fields):
        compared = estimator_mp.compare(
          model_fns.keras(case.compiled()),
          lambda: case.dataset().repeat(),
          estimator_mp.ShardingConfig(**fields),
          3,
        )
        self.assertTrue(compared.ok, compared.text())


class ErrorsTest(absltest.TestCase):
  def test_steps_that_are_counted_in_python_below_a_loss_scale(self):
    optimizer = keras.mixed_precision.LossScaleOptimizer(
      keras.optimizers.Nadam()
    )
    with self.assertRaisesRegex(ValueError, "use keras.optimizers.legacy.Nad"):
      optimizers.check_optimizer(optimizer)

  def test_steps_that_are_counted_in_python(self):
    with self.assertRaisesRegex(ValueError, "use keras.optimizers.legacy.Nad"):
      optimizers.check_optimizer(keras.optimizers.Nadam())

  def test_something_else(self):
    with self.assertRaisesRegex(ValueError, "compile the model with an opt"):
      optimizers.check_optimizer(object())


if __name__ == "__main__":
  absltest.main()
