"""A data set for a training job: sizes, input functions, one error."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf


class DatasetError(ValueError):
  """The data cannot be used; the text names the file, the record and the fix.

  Raised while a data set is loaded, before any graph or session exists.
  """


@dataclasses.dataclass(frozen=True)
class Dataset:
  """A labelled image data set, validated, ready for `tf.estimator`.

  The input pipelines are `tf.data` and stay on the host. What they deliver
  depends on the seed and the batch size only, never on the mesh, so that runs
  on different meshes see the same batches.

  Attributes:
    name: The name that `load` knows the data set by.
    num_classes: Labels are 0 to num_classes - 1.
    image_shape: (height, width, channels) of every image.
    num_train: Number of training images.
    num_test: Number of held-out images.
    mean: Per channel, subtracted from images in [0, 1].
    stddev: Per channel, divides images after the mean was subtracted.
    train_examples: seed -> endless `tf.data.Dataset` of single shuffled (and
      possibly augmented) training examples: (float32 [h, w, c] image in
      [0, 1], int32 scalar label).
    test_examples: () -> finite `tf.data.Dataset` of the held-out examples, in
      a fixed order, in the same form.
  """

  name: str
  num_classes: int
  image_shape: tuple[int, int, int]
  num_train: int
  num_test: int
  mean: tuple[float, ...]
  stddev: tuple[float, ...]
  train_examples: Callable[[int], tf.data.Dataset]
  test_examples: Callable[[], tf.data.Dataset]

  def train_input_fn(
    self, batch_size: int, seed: int
  ) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for training.

    Args:
      batch_size: Examples per batch, 1 to `num_train`; every batch is full.
      seed: Fixes the order of the examples and their augmentation.

    Returns:
      A function without arguments that returns an endless `tf.data.Dataset`
      of ({"image": float32 [batch_size, h, w, c]}, int32 [batch_size, 1]).

    Raises:
      ValueError: batch_size is not between 1 and `num_train`.
    """
    if not 1 <= batch_size <= self.num_train:
      raise ValueError(
        f"batch_size={batch_size} does not fit the {self.num_train} training"
        f" images of {self.name}; use 1 to {self.num_train}"
      )

    def input_fn() -> tf.data.Dataset:
      examples = self.train_examples(seed)
      return self._batches(examples, batch_size, drop_remainder=True)

    return input_fn

  def test_input_fn(self, batch_size: int) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for evaluation: each held-out image once.

    Args:
      batch_size: Examples per batch, at least 1; the last batch is smaller
        where `num_test` is not a multiple of it.

    Returns:
      A function without arguments that returns a `tf.data.Dataset` of
      ({"image": float32 [b, h, w, c]}, int32 labels [b, 1]).

    Raises:
      ValueError: batch_size is less than 1.
    """
    if batch_size < 1:
      raise ValueError(f"batch_size={batch_size} is too small; use at least 1")

    def input_fn() -> tf.data.Dataset:
      examples = self.test_examples()
      return self._batches(examples, batch_size, drop_remainder=False)

    return input_fn

  def serving_input_receiver_fn(
    self,
  ) -> tf.estimator.export.ServingInputReceiver:
    """Makes the serving input of an exported model; pass it, uncalled.

    Returns:
      A `tf.estimator.export.ServingInputReceiver` that receives raw images,
      {"image": float32 [None, h, w, c] in [0, 1]}, and standardises them as
      the input functions do.
    """
    received = tf.compat.v1.placeholder(
      tf.float32, [None, *self.image_shape], name="image"
    )
    return tf.estimator.export.ServingInputReceiver(
      features={"image": self._standardise(received)},
      receiver_tensors={"image": received},
    )

  def _standardise(self, images: tf.Tensor) -> tf.Tensor:
    mean = np.asarray(self.mean, np.float32)
    return (images - mean) / np.asarray(self.stddev, np.float32)

  def _batches(
    self, examples: tf.data.Dataset, batch_size: int, drop_remainder: bool
  ) -> tf.data.Dataset:
    def as_features(
      images: tf.Tensor, labels: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
      return {"image": self._standardise(images)}, labels[:, tf.newaxis]

    batches = examples.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(as_features).prefetch(tf.data.AUTOTUNE)
