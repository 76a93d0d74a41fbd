"""Points in the plane, of classes that no line separates."""

from typing import Any

from compat.contrib.learn.datasets.base import Dataset

import numpy as np


def _shuffled(
  points: Any, labels: Any, noise: float | None, random: Any
) -> Dataset:
  order = random.permutation(len(labels))
  if noise is not None:
    points = points + random.normal(scale=noise, size=points.shape)
  return Dataset(points[order], labels[order])


def _check_divisible(n_samples: int, n_classes: int) -> None:
  if n_samples % n_classes:
    raise ValueError(
      f"n_samples={n_samples} must be divisible by the {n_classes} classes."
    )


def circles(
  n_samples: int = 100,
  noise: float | None = None,
  seed: int | None = None,
  factor: float = 0.8,
  n_classes: int = 2,
  *args: Any,
  **kwargs: Any,
) -> Dataset:
  """Returns points on circles, one for each class.

  Args:
    n_samples: how many points.
    noise: the standard deviation of the noise that is added.
    seed: of the noise and of the order.
    factor: the radius of one circle by that of the next.
    n_classes: how many circles.
    *args: are not used.
    **kwargs: are not used.
  """
  del args, kwargs
  random = np.random if seed is None else np.random.RandomState(seed)
  _check_divisible(n_samples, n_classes)
  count = n_samples // n_classes
  angles = np.linspace(0, 2 * np.pi, count)
  circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
  points = [circle * factor**index for index in range(n_classes)]
  labels = np.repeat(np.arange(n_classes, dtype=np.int32), count)
  return _shuffled(np.concatenate(points), labels, noise, random)


# Radius by angle.
_SPIRALS = {
  "archimedes": lambda angles: angles,
  "bernoulli": lambda angles: np.exp(0.1 * angles),
  "fermat": np.sqrt,
}


def spirals(
  n_samples: int = 100,
  noise: float | None = None,
  seed: int | None = None,
  mode: str = "archimedes",
  n_loops: int = 2,
  *args: Any,
  **kwargs: Any,
) -> Dataset:
  """Returns points on two spirals, one the other turned by half a circle.

  Args:
    n_samples: how many points.
    noise: the standard deviation of the noise that is added.
    seed: of the noise and of the order.
    mode: "archimedes", "bernoulli" or "fermat".
    n_loops: how often a spiral goes round.
    *args: are not used.
    **kwargs: are not used.
  """
  del args, kwargs
  if mode not in _SPIRALS:
    raise ValueError(f"mode={mode!r} is none of {', '.join(_SPIRALS)}.")
  _check_divisible(n_samples, 2)
  random = np.random if seed is None else np.random.RandomState(seed)
  angles = np.linspace(0, 2 * n_loops * np.pi, n_samples // 2)
  radius = _SPIRALS[mode](angles)
  points = []
  for turn in (0, np.pi):
    x = np.cos(angles + turn) * radius
    y = np.sin(angles + turn) * radius
    points.append(np.stack([x / abs(x).max(), y / abs(y).max()], axis=1))
  labels = np.repeat(np.arange(2, dtype=np.int32), n_samples // 2)
  return _shuffled(np.concatenate(points), labels, noise, random)
