"""cifar10_cnn and mlp: layers that layer_split places, on digits, CIFAR-10."""

from collections.abc import Callable
from typing import TypeAlias

from model_fns import datasets, sharded
from model_fns.images import cifar10_cnn, mlp
from model_fns.recipes import recipe as recipe_lib
from model_fns.splits.layer_split import layer_split

import numpy as np
import tensorflow as tf

ImageModelFn: TypeAlias = Callable[
  [datasets.Dataset, sharded.Config], sharded.ModelFn
]

LAYERS = {"cifar10_cnn": cifar10_cnn.layers, "mlp": mlp.layers}

# The baseline is to take seconds on large images, too.
_MOST_EXAMPLES = 5000
_MOST_ITERATIONS = 100


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe of one of `LAYERS`.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the data cannot be used, or the batch size does not fit it.
  """
  return of_images(
    request,
    datasets.load(request.dataset, request.data_dir),
    lambda data, config: _model_fn(request, data, config),
  )


def of_images(
  request: recipe_lib.Request,
  data: datasets.Dataset,
  make_model_fn: ImageModelFn,
) -> recipe_lib.Recipe:
  """Returns the recipe of a classifier of images.

  Args:
    request: The request of the train command.
    data: The images.
    make_model_fn: Returns the model_fn for images and a mesh; its evaluation
      has an accuracy and an average_loss.

  Raises:
    ValueError: If the batch size does not fit the data, or scikit-learn is not
      installed.
  """
  recipe_lib.check_scikit_learn()
  height, width, channels = data.image_shape
  return recipe_lib.Recipe(
    data=(
      f"{data.name}: {data.num_train:,} images to train and"
      f" {data.num_test:,} held out, {height}x{width}x{channels},"
      f" {data.num_classes} classes"
    ),
    train_input_fn=data.train_input_fn(request.batch_size, request.seed),
    eval_input_fn=data.test_input_fn(request.batch_size),
    serving_input_receiver_fn=data.serving_input_receiver_fn,
    make_model_fn=lambda config: make_model_fn(data, config),
    figure="accuracy",
    baseline=lambda: _logistic_regression(data, request.seed),
    loss="average_loss",
  )


def plain_model_fn(model: str, num_classes: int, seed: int) -> sharded.ModelFn:
  """Returns one of `LAYERS` as a model_fn that knows no mesh, for training.

  Args:
    model: Its name.
    num_classes: How many classes the images have.
    seed: Fixes the initial weights.
  """

  def model_fn(
    features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str
  ) -> tf.estimator.EstimatorSpec:
    logits = features["image"]
    for layer in LAYERS[model](num_classes, seed):
      logits = layer(logits, training=mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.compat.v1.train.AdamOptimizer(0.001).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _model_fn(
  request: recipe_lib.Request, data: datasets.Dataset, config: sharded.Config
) -> sharded.ModelFn:
  return layer_split(
    LAYERS[request.model](data.num_classes, request.seed),
    tf.estimator.MultiClassHead(data.num_classes),
    "stage:1" if config is None else config,
    request.make_optimizer,
    feature_key="image",
    verify_placement=False,
  )


def _logistic_regression(
  data: datasets.Dataset, seed: int
) -> recipe_lib.Baseline:
  """Returns how often a regression on pixels is right."""
  # Who inspects a model of this file needs no scikit-learn.
  import sklearn.linear_model

  count = min(data.num_train, _MOST_EXAMPLES)
  images, labels = _arrays(lambda: data.train_examples(seed), count)
  held_out, expected = _arrays(data.test_examples, data.num_test)
  # It may stop before it converges: it is to take seconds.
  model = sklearn.linear_model.LogisticRegression(
    max_iter=_MOST_ITERATIONS, tol=0.01
  )
  model.fit(images, labels)
  return recipe_lib.Baseline(
    f"logistic regression on {count:,} images",
    float(model.score(held_out, expected)),
  )


def _arrays(
  examples: recipe_lib.InputFn, count: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the first examples: pixels [count, n], and classes [count]."""
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    batches = examples().batch(count)
    iterator = tf.compat.v1.data.make_one_shot_iterator(batches)
    images, labels = session.run(iterator.get_next())
  return images.reshape(count, -1), labels
