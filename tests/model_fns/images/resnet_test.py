"""Residual networks on any mesh are those on one device."""

import functools
from unittest import mock

import estimator_mp
import model_fns
from model_fns.images import resnet as resnet_lib
from tests import tiers
from tests.estimator_mp import programs, runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# The rate falls after 6 and 9 steps.
_STEPS, _BATCH = 12 if tiers.FAST else 20, 32
_RANDOM = np.random.RandomState(7)
_IMAGES = (
  {"image": _RANDOM.normal(size=[_BATCH + 8, 8, 8, 3]).astype(np.float32)},
  _RANDOM.randint(5, size=[_BATCH + 8, 1]).astype(np.int32),
)


def _momentum():
  return resnet_lib.stepped_momentum(0.01, train_steps=12)


_MAKE = functools.partial(
  model_fns.resnet, 5, depth=10, width=4, optimizer=_momentum
)


def _batches():
  return [
    programs.examples(_IMAGES, i % 8, i % 8 + _BATCH) for i in range(_STEPS)
  ]


def _steps_on_slices(program, start, batch, num_slices):
  """Returns steps on slices of a batch, each from the same variables."""
  size = _BATCH // num_slices
  steps = []
  for i in range(num_slices):
    program.load(start)
    part = programs.examples(batch, i * size, (i + 1) * size)
    steps.append(program.step(part))
  return steps


class _SmoothTestCase(parameterized.TestCase):
  """Tests with a smooth activation in the place of the rectifier.

  Rounding decides which slope a rectifier has whose input is next to 0, and in
  some steps one is: two plain runs whose examples are in another order then
  have other losses.
  """

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(tf.nn, "relu", tf.nn.softplus))


class WholeBatchTest(_SmoothTestCase):
  """Batch normalisation is the plain model's, on any mesh."""

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", "stage:2", 1, {"depth": 50}),
        ("micro_batches", "stage:2", 4, {}),
        ("replicas", "data:2", 1, {}),
        ("model", "model:2", 1, {}),
        ("both", "stage:2,model:2", 2, {"stem": "large"}),
      ]
    )
  )
  def test_losses_and_gradients(self, mesh, num_micro_batches, sizes):
    make = functools.partial(_MAKE, **sizes)
    plain = programs.Program(make(), None, _IMAGES)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    sharded = programs.Program(make(), config, _IMAGES)
    start = plain.variables()
    programs.assert_same_variables(self, sharded.variables(), start, rtol=0)
    expected = [plain.step(batch) for batch in _batches()]
    found = [sharded.step(batch) for batch in _batches()]
    slices = _steps_on_slices(plain, start, _batches()[0], num_slices=8)
    terms = [step.gradients for step in slices]
    programs.assert_same_gradients(
      self, found[0].gradients, expected[0].gradients, terms, rtol=1e-5
    )
    np.testing.assert_allclose(
      [step.loss for step in found], [step.loss for step in expected], rtol=1e-5
    )


class SlicesTest(_SmoothTestCase):
  """Each slice may be normalised by its own statistics, as the guides say.

  Momentum is linear in gradients, and so are moving averages in statistics: a
  step is the mean of plain steps on the slices, in all variables.
  """

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("replicas", "data:2", 1, 2),
        ("stages", "stage:2", 4, 4),
        ("both", "stage:2,model:2", 4, 4),
      ]
    )
  )
  def test_losses_and_variables(self, mesh, num_micro_batches, num_slices):
    plain = programs.Program(_MAKE(), None, _IMAGES)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches, batch_norm="per_micro_batch"
    )
    sharded = programs.Program(_MAKE(), config, _IMAGES)
    before = sharded.variables()
    for batch in _batches():
      step = sharded.step(batch)
      of_slices = _steps_on_slices(plain, before, batch, num_slices)
      loss, gradients, variables = (
        tf.nest.map_structure(lambda *values: np.mean(values, 0), *found)
        for found in zip(
          *((one.loss, one.gradients, one.variables) for one in of_slices),
          strict=True,
        )
      )
      np.testing.assert_allclose(step.loss, loss, rtol=1e-5)
      terms = [one.gradients for one in of_slices]
      programs.assert_same_gradients(
        self, step.gradients, gradients, terms, rtol=1e-5
      )
      programs.assert_same_variables(self, step.variables, variables, 1e-4)
      before = step.variables


class EstimatorTest(absltest.TestCase):
  def _input_fn(self):
    """The last batch is short."""
    return tf.data.Dataset.from_tensor_slices(_IMAGES).batch(12)

  def _train(self, config, model_dir):
    estimator = self._estimator(config, model_dir)
    estimator.train(lambda: self._input_fn().repeat(), steps=2)
    return estimator

  def _estimator(self, config, model_dir):
    return runs.make_estimator(_MAKE(config=config), config, None, model_dir)

  @tiers.slow
  def test_evaluates_predicts_and_exports(self):
    folder = self.create_tempdir().full_path
    plain = self._train(None, folder)
    config = estimator_mp.ShardingConfig("stage:2,model:2", num_micro_batches=2)
    sharded = self._estimator(config, folder)
    metrics, expected = (
      one.evaluate(self._input_fn) for one in (sharded, plain)
    )
    self.assertCountEqual(
      metrics, ["accuracy", "average_loss", "loss", "global_step"]
    )
    for name, value in expected.items():
      np.testing.assert_allclose(metrics[name], value, rtol=1e-6)
    predicted, expected = (
      [*one.predict(self._input_fn)] for one in (sharded, plain)
    )
    for found, wanted in zip(predicted, expected, strict=True):
      self.assertCountEqual(found, ["logits", "probabilities", "class"])
      self.assertEqual(found["class"], wanted["class"])
      for name in ("logits", "probabilities"):
        np.testing.assert_allclose(
          found[name], wanted[name], rtol=1e-6, atol=1e-6
        )
    self.assertExportsFor(sharded, predicted)

  def assertExportsFor(self, estimator, predicted):
    """The SavedModel takes images of another size, too."""

    def receiver():
      image = v1.placeholder(tf.float32, [None, None, None, 3])
      return tf.estimator.export.ServingInputReceiver(
        {"image": image}, {"image": image}
      )

    folder = self.create_tempdir().full_path
    path = estimator.export_saved_model(folder, receiver).decode()
    images = _IMAGES[0]["image"]
    with tf.Graph().as_default(), v1.Session() as session:
      loaded = v1.saved_model.load(session, ["serve"], path)
      signature = loaded.signature_def["serving_default"]
      logits = signature.outputs["logits"].name
      fed = signature.inputs["image"].name
      np.testing.assert_allclose(
        session.run(logits, {fed: images}),
        [one["logits"] for one in predicted],
        rtol=1e-5,
        atol=1e-6,
      )
      larger = session.run(logits, {fed: np.ones([2, 21, 13, 3])})
      self.assertEqual(larger.shape, (2, 5))


class ArchitectureTest(parameterized.TestCase):
  @parameterized.named_parameters(
    # The sizes of the paper's networks for 1000 classes, as they are known.
    ("18", 18, 11_689_512),
    *tiers.sample([("50", 50, 25_557_032), ("34", 34, 21_797_672)]),
  )
  def test_has_as_many_weights_as_is_known(self, depth, count):
    with tf.Graph().as_default():
      v1.train.create_global_step()
      images = v1.placeholder(tf.float32, [None, 224, 224, 3])
      model_fn = model_fns.resnet(1000, depth, stem="large")
      model_fn({"image": images}, None, tf.estimator.ModeKeys.PREDICT)
      variables = v1.trainable_variables()
      self.assertEqual(
        sum(variable.shape.num_elements() for variable in variables), count
      )

  def test_large_images_are_reduced_at_once(self):
    with tf.Graph().as_default() as graph:
      images = v1.placeholder(tf.float32, [None, 224, 224, 3])
      model_fn = model_fns.resnet(5, 18, width=2, stem="large")
      model_fn({"image": images}, None, tf.estimator.ModeKeys.PREDICT)
      sizes = [
        graph.get_tensor_by_name(op.inputs[0].name).shape[1]
        for op in graph.get_operations()
        if op.type == "Conv2D" and "first" in op.name
      ]
    self.assertEqual(sizes, [56, 56, 56, 28, 28, 14, 14, 7])

  def test_the_rate_falls_twice(self):
    with tf.Graph().as_default(), v1.Session() as session:
      step = v1.train.create_global_step()
      variable = v1.get_variable("x", initializer=0.0)
      optimizer = resnet_lib.stepped_momentum(0.1, train_steps=8)
      train = optimizer.minimize(variable, step)
      session.run(v1.global_variables_initializer())
      slot = optimizer.get_slot(variable, "momentum")
      rates = []
      for _ in range(8):
        before = session.run(variable)
        session.run(train)
        after, momentum = session.run([variable, slot])
        rates.append((before - after) / momentum)
    np.testing.assert_allclose(rates, [0.1] * 5 + [0.01] * 2 + [0.001], 1e-5)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("classes", {"num_classes": 1}, "num_classes=1 is too few; a classifier"),
    (
      "depth",
      {"depth": 19},
      "depth=19 is not known; use one of 10, 18, 34, 50",
    ),
    ("width", {"width": 0}, "width=0 is too small; use at least 1 channel"),
    ("stem", {"stem": "tiny"}, "stem='tiny' is not known; use one of small,"),
    ("decay", {"weight_decay": -1.0}, "weight_decay=-1.0 would make weights"),
  )
  def test_numbers(self, changes, message):
    with self.assertRaises(ValueError) as caught:
      model_fns.resnet(**({"num_classes": 5} | changes))
    self.assertStartsWith(str(caught.exception), message)

  def test_optimizer(self):
    with self.assertRaisesRegex(TypeError, "optimizer is 'adam'; pass a"):
      model_fns.resnet(5, optimizer="adam")


if __name__ == "__main__":
  absltest.main()
