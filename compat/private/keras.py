"""What Keras 2 knows and does not tell: whether it is tf.keras, and its seeds.

Tested on TensorFlow and tf-keras 2.15.1 and 2.21.0.

- `tensorflow._tf_uses_legacy_keras` tells which Keras TensorFlow has taken.
- `backend._SEED_GENERATOR` is where layers, tf_keras's and those of
  tf.compat.v1.layers, draw the seeds that they were not given.
  `tf.keras.utils.set_random_seed` sets it; without that it is `random`.
"""

import contextlib
import inspect
import random
import types
from collections.abc import Iterator
from typing import Any


def uses_legacy_keras(tensorflow: types.ModuleType) -> bool:
  """Returns whether TensorFlow has taken tf-keras as tf.keras.

  Args:
    tensorflow: the module, of version 2.16 or later.
  """
  return bool(getattr(tensorflow, "_tf_uses_legacy_keras", False))


def seeds_of_layers(tensorflow: types.ModuleType) -> Any:
  """Returns what has, as `generator`, the source of the layers' seeds.

  Args:
    tensorflow: the module.
  """
  keras = inspect.getmodule(tensorflow.keras.utils.set_random_seed)
  return vars(keras)["backend"]._SEED_GENERATOR


@contextlib.contextmanager
def seeded_layers(
  tensorflow: types.ModuleType, seed: int | None
) -> Iterator[None]:
  """Fixes the seeds that layers made inside draw, in this thread.

  They are those after `tf.keras.utils.set_random_seed(seed)`. Python's own
  `random` is left as it is.

  Args:
    tensorflow: the module.
    seed: the seed; None, or a program that has called `set_random_seed` itself,
      leaves all as it is.

  Yields:
    None.
  """
  seeds = seeds_of_layers(tensorflow)
  if seed is None or getattr(seeds, "generator", None) is not None:
    yield
    return
  seeds.generator = random.Random(seed)
  try:
    yield
  finally:
    seeds.generator = None
