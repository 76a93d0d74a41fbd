"""A request's way through the chain, independent of where stages run."""

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from estimator_mp.serving.pipeline_file import (
  Pipeline,
  Signature,
  Source,
  TensorSpec,
)

import numpy as np
import tensorflow as tf

Arrays = Mapping[str, Any]
# Of a stage, its signature and its inputs: its outputs.
Call = Callable[[int, str, Arrays], Arrays]


def run(signature: Signature, inputs: Arrays, call: Call) -> dict[str, Any]:
  """Returns the outputs of the whole model for one request.

  Args:
    signature: The signature.
    inputs: An array for each of its inputs, as `checked_inputs` returns them.
    call: Computes one stage.
  """
  # A tensor is held until the last who reads it has it.
  reads = collections.Counter(
    source for step in signature.steps for source in step.inputs.values()
  )
  reads.update(signature.outputs.values())
  held = {Source(None, name): value for name, value in inputs.items()}

  def take(source: Source) -> Any:
    reads[source] -= 1
    return held[source] if reads[source] else held.pop(source)

  for number, step in enumerate(signature.steps):
    read = {name: take(source) for name, source in step.inputs.items()}
    outputs = call(step.stage, step.signature, read)
    held |= {Source(number, name): value for name, value in outputs.items()}
  return {name: take(source) for name, source in signature.outputs.items()}


def signature_of(pipeline: Pipeline, name: str) -> Signature:
  """Returns a signature of a chain.

  Args:
    pipeline: The chain.
    name: The signature's name.

  Raises:
    ValueError: If there is none of that name.
  """
  if name not in pipeline.signatures:
    raise ValueError(
      f"signature={name!r} is not one of the chain's, which are "
      f"{', '.join(sorted(pipeline.signatures))}"
    )
  return pipeline.signatures[name]


def checked_inputs(
  specs: Mapping[str, TensorSpec], inputs: Arrays
) -> dict[str, np.ndarray]:
  """Returns a request's inputs as arrays of the right dtypes.

  Args:
    specs: The descriptions of the inputs.
    inputs: The caller's inputs, by name: arrays, or values to make some of.

  Raises:
    ValueError: If something is missing, not known, or does not fit.
  """
  check_names(specs, inputs)
  return {
    name: as_array(name, inputs[name], spec) for name, spec in specs.items()
  }


def check_names(specs: Mapping[str, TensorSpec], inputs: Arrays) -> None:
  """Raises if an input is missing, or is not known.

  Args:
    specs: The descriptions of the inputs.
    inputs: The caller's inputs, by name.

  Raises:
    ValueError: With its name.
  """
  names = ", ".join(specs)
  for name in inputs:
    if name not in specs:
      raise ValueError(f"the model has no input {name!r}; it has {names}")
  missing = [name for name in specs if name not in inputs]
  if missing:
    raise ValueError(
      f"there is no value for the input {missing[0]!r}; the model needs {names}"
    )


def as_array(name: str, value: Any, spec: TensorSpec) -> np.ndarray:
  """Returns a value as an array of the dtype and shape that an input has.

  Args:
    name: The input, for messages.
    value: An array, or a value to make one of.
    spec: The description of the input.

  Raises:
    ValueError: If it does not fit.
  """
  dtype = tf.dtypes.as_dtype(spec.dtype)
  try:
    # Numpy's own texts would lose zeros at the end of bytes.
    array = np.asarray(value, object if dtype == tf.string else None)
    if dtype == tf.string:
      texts = [_bytes(x) for x in array.ravel()]
      array = np.array([*texts, None], object)[:-1].reshape(array.shape)
    elif array.dtype != dtype.as_numpy_dtype:
      array = _cast(array, dtype.as_numpy_dtype)
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"the input {name!r} has to be {spec.dtype}{shape_text(spec.shape)}, and "
      f"the given value cannot be converted: {error}"
    ) from error
  if not tf.TensorShape(spec.shape).is_compatible_with(array.shape):
    raise ValueError(
      f"the input {name!r} has the shape {shape_text(array.shape)}, but the "
      f"model takes {shape_text(spec.shape)}"
    )
  return array


def shape_text(shape: Any) -> str:
  """Returns a shape for people: [?,20].

  Args:
    shape: Dimensions, None for one that is not known; None for any.
  """
  if shape is None:
    return " of any shape"
  return f"[{','.join('?' if x is None else str(x) for x in shape)}]"


def _bytes(value: Any) -> bytes:
  if isinstance(value, str):
    return value.encode()
  if isinstance(value, bytes):
    return bytes(value)
  raise TypeError(f"{value!r} is not a string")


def _cast(array: np.ndarray, dtype: Any) -> np.ndarray:
  """Returns numbers in another dtype that has room for them.

  Raises:
    TypeError: If it has none.
  """
  kinds = array.dtype.kind, np.dtype(dtype).kind
  if not np.can_cast(array.dtype, dtype, "same_kind") and array.size:
    if not all(kind in "iuf" for kind in kinds):
      raise TypeError(f"it is {array.dtype}")
    if not np.array_equal(array.astype(dtype), array):
      raise TypeError(f"it is {array.dtype}, with numbers that do not fit")
  cast: np.ndarray = array.astype(dtype)
  if kinds[1] in "iu" and not np.array_equal(cast, array):
    raise TypeError(f"a number is too large for {np.dtype(dtype).name}")
  return cast


def in_order(
  requests: Any, start: Callable[[Any], Any], in_flight: int
) -> Iterator[Any]:
  """Yields results in the order of requests, some of which are under way.

  No more requests are read than are under way.

  Args:
    requests: The requests.
    start: Begins with one; returns a future.
    in_flight: How many may be under way.
  """
  pending: list[Any] = []
  try:
    for request in requests:
      if len(pending) >= in_flight:
        yield pending.pop(0).result()
      pending.append(start(request))
    while pending:
      yield pending.pop(0).result()
  finally:
    for future in pending:
      future.cancel()
