"""Tensors to add, sessions to add them in, and what a sum may be off by."""

from collections.abc import Sequence

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.
from estimator_mp.collectives import all_reduce as all_reduce_lib

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
TIMEOUT = v1.RunOptions(timeout_in_ms=600_000)

# The bits of a number before rounding, the leading 1 among them.
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def session_config(num_devices: int) -> tf.compat.v1.ConfigProto:
  """Returns hard placement on CPU devices with a thread each."""
  return v1.ConfigProto(
    allow_soft_placement=False,
    device_count={"CPU": num_devices},
    use_per_session_threads=True,
    inter_op_parallelism_threads=max(num_devices, 2),
  )


def cpus(count: int) -> list[str]:
  """Returns the canonical names of CPU devices."""
  return [f"/device:CPU:{index}" for index in range(count)]


def all_reduce(tensors: Sequence[tf.Tensor], algorithm: str) -> list[tf.Tensor]:
  """Returns the sum of tensors on the device of each."""
  devices = [tensor.device for tensor in tensors]
  return all_reduce_lib.all_reduce(tensors, algorithm, devices)


def random_parts(
  count: int, shape: Sequence[int], dtype: tf.DType, seed: int
) -> np.ndarray:
  """Returns a tensor per device, of numbers of different magnitudes."""
  random = np.random.RandomState(seed)
  numbers = random.randn(count, *shape) * 10.0 ** random.randint(
    -1, 2, size=[count, *shape]
  )
  return numbers.astype(dtype.as_numpy_dtype)


def assert_is_sum(parts: np.ndarray, results: Sequence[np.ndarray]) -> None:
  """Fails unless results are the sum of parts, the same for all bit for bit.

  Each addition rounds by at most half a unit in the last place of what has been
  added, in whatever order.
  """
  assert {result.dtype for result in results} == {parts.dtype}, parts.dtype
  assert {result.shape for result in results} == {parts.shape[1:]}
  assert len({result.tobytes() for result in results}) == 1, results
  exact = parts.astype(np.longdouble)
  rounding = 2.0 ** -_PRECISION[parts.dtype.name]
  allowed = rounding * len(parts) * np.abs(exact).sum(axis=0)
  error = np.abs(results[0].astype(np.longdouble) - exact.sum(axis=0))
  np.testing.assert_array_less(error, allowed + 1e-30)
