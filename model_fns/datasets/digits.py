"""scikit-learn's embedded handwritten digits: 1,797 images, no download.

The images are the test part of E. Alpaydin and C. Kaynak's optical recognition
of handwritten digits (UCI, 1998): 8x8 pixels, values 0 to 16.
"""

from model_fns.datasets import dataset

import numpy as np
import tensorflow as tf

_NUM_CLASSES = 10
_MAX_PIXEL = 16.0
_HELD_OUT_FRACTION = 0.2
_SPLIT_SEED = 0


def load() -> dataset.Dataset:
  """Loads the digits, split into 80% training and 20% held-out images.

  The split is stratified (every class gives the same share) and always the
  same, whatever the seed of the run, so that accuracies can be compared.

  Returns:
    The data set, with images [8, 8, 1].

  Raises:
    DatasetError: If scikit-learn is not installed.
  """
  try:
    from sklearn import datasets as sklearn_datasets
  except ModuleNotFoundError as error:
    raise dataset.DatasetError(
      "dataset=digits needs scikit-learn; pip install 'estimator-mp[train]', or"
      " use --dataset=cifar10"
    ) from error
  digits = sklearn_datasets.load_digits()
  images = (digits.images[..., np.newaxis] / _MAX_PIXEL).astype(np.float32)
  labels = digits.target.astype(np.int32)
  train, test = stratified_split(labels, _HELD_OUT_FRACTION, _SPLIT_SEED)

  def train_examples(seed: int) -> tf.data.Dataset:
    examples = tf.data.Dataset.from_tensor_slices(
      (images[train], labels[train])
    )
    return examples.shuffle(len(train), seed=seed).repeat()

  def test_examples() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((images[test], labels[test]))

  return dataset.Dataset(
    name="digits",
    num_classes=_NUM_CLASSES,
    image_shape=(8, 8, 1),
    num_train=len(train),
    num_test=len(test),
    mean=(float(images[train].mean()),),
    stddev=(float(images[train].std()),),
    train_examples=train_examples,
    test_examples=test_examples,
  )


def stratified_split(
  labels: np.ndarray, held_out_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Splits examples so that each class is held out in the same proportion.

  Args:
    labels: Integer labels [n].
    held_out_fraction: Share of each class that is held out, 0 to 1.
    seed: Fixes which examples are held out.

  Returns:
    (train, held_out): two sorted arrays of indices into `labels`, which
    together are all of them.
  """
  # RandomState's streams are frozen: every NumPy release gives this split.
  random = np.random.RandomState(seed)
  held_out = []
  for label in np.unique(labels):
    members = random.permutation(np.flatnonzero(labels == label))
    held_out.append(members[: round(held_out_fraction * len(members))])
  test = np.sort(np.concatenate(held_out))
  return np.setdiff1d(np.arange(len(labels)), test), test
