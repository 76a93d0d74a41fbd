"""tf.contrib.learn.datasets: MNIST from local files, iris, synthetic ones.

`load_boston` raises an error: scikit-learn has removed these data. Nothing is
downloaded unless a program asks for a file that is not there.
"""

from collections.abc import Callable
from typing import Any

from compat.contrib import absent
from compat.contrib.learn.datasets import base, synthetic
from compat.contrib.learn.datasets.base import load_boston, load_iris

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("base", "mnist", "synthetic"))

DATASETS: dict[str, Callable[..., Any]] = {
  "iris": base.load_iris,
  "boston": base.load_boston,
}
SYNTHETIC: dict[str, Callable[..., Any]] = {
  "circles": synthetic.circles,
  "spirals": synthetic.spirals,
}

__all__ = [
  "DATASETS",
  "SYNTHETIC",
  "load_boston",
  "load_dataset",
  "load_iris",
  "make_dataset",
]


def load_dataset(
  name: str, size: str = "small", test_with_fake_data: bool = False
) -> Any:
  """Returns a data set.

  Args:
    name: "iris".
    size: is for "dbpedia" only, whose files are gone.
    test_with_fake_data: the same.

  Raises:
    ValueError: if there is no such data set.
  """
  del size, test_with_fake_data
  if name not in DATASETS:
    raise ValueError(
      f"name={name!r} is no data set. There is {', '.join(DATASETS)}; "
      "tensorflow-datasets has many."
    )
  return DATASETS[name]()


def make_dataset(
  name: str,
  n_samples: int = 100,
  noise: float | None = None,
  seed: int | None = 42,
  *args: Any,
  **kwargs: Any,
) -> Any:
  """Returns a synthetic data set.

  Args:
    name: "circles" or "spirals".
    n_samples: how many points.
    noise: the standard deviation of the noise that is added.
    seed: of the noise and of the order.
    *args: given to the function.
    **kwargs: given to the function.

  Raises:
    ValueError: if there is no such data set.
  """
  if name not in SYNTHETIC:
    raise ValueError(
      f"name={name!r} is no synthetic data set. There is "
      f"{', '.join(SYNTHETIC)}."
    )
  return SYNTHETIC[name](n_samples, noise, seed, *args, **kwargs)
