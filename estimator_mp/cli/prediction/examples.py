"""Examples in files: JSON lines, and arrays by name.

    {"x": [1.5, 2.0], "word": "ulm"}                 an example, a line
    {"examples": {"b64": "CgwKBQoBeBIE"}}            bytes that are no text

In a .npz file, an array has a row for each example.
"""

import base64
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from estimator_mp import json_values
from estimator_mp.serving import chain
from estimator_mp.serving.pipeline_file import TensorSpec

import numpy as np

_B64 = "b64"
_NPZ = ".npz"


def read(
  path: str, inputs: Mapping[str, TensorSpec], batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
  """Yields the requests of a file; the last one may be short.

  Args:
    path: The file.
    inputs: The inputs of the model.
    batch_size: How many examples a request has.

  Raises:
    ValueError: If the file cannot be read, or does not fit the model's inputs.
  """
  try:
    requests = _of_arrays if path.endswith(_NPZ) else _of_lines
    yield from requests(path, inputs, batch_size)
  except OSError as error:
    raise ValueError(
      f"--examples={path} cannot be read: {error.strerror or error}"
    ) from error


def _of_arrays(
  path: str, inputs: Mapping[str, TensorSpec], batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
  """Yields the requests of a .npz file."""
  try:
    with np.load(path, allow_pickle=False) as file:
      arrays = {name: file[name] for name in file.files}
  except (ValueError, zipfile.BadZipFile) as error:
    raise ValueError(
      f"--examples={path} holds no arrays of numbers or texts: {error}"
    ) from error
  counts = {
    name: len(array)
    for name, array in arrays.items()
    if _has_rows(inputs.get(name)) and array.ndim
  }
  if len(set(counts.values())) > 1:
    raise ValueError(
      f"--examples={path} has arrays of different lengths: "
      + ", ".join(f"{name} {count}" for name, count in counts.items())
    )
  for begin in range(0, max(counts.values(), default=0), batch_size):
    yield chain.checked_inputs(
      inputs,
      {
        name: array[begin : begin + batch_size] if name in counts else array
        for name, array in arrays.items()
      },
    )


def _has_rows(spec: TensorSpec | None) -> bool:
  """Whether an input has a row for each example."""
  return spec is not None and spec.shape != ()


def _of_lines(
  path: str, inputs: Mapping[str, TensorSpec], batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
  """Yields the requests of a file of JSON lines."""
  for name, spec in inputs.items():
    if not _has_rows(spec):
      raise ValueError(
        f"the input {name!r} has no row for each example, which JSON lines "
        "have; give a .npz file"
      )
  with open(path, encoding="utf-8") as file:
    rows: list[dict[str, Any]] = []
    first = 1
    for number, line in enumerate(file, 1):
      if line.strip():
        rows.append(_example(path, number, line, inputs))
      if len(rows) == batch_size:
        yield _request(path, first, number, rows, inputs)
        rows, first = [], number + 1
    if rows:
      yield _request(path, first, number, rows, inputs)


def _example(
  path: str, number: int, line: str, inputs: Mapping[str, TensorSpec]
) -> dict[str, Any]:
  """Returns the example of a line."""
  try:
    values = json_values.parse(line)
    if not isinstance(values, dict):
      raise ValueError("it is not a JSON object")
    chain.check_names(inputs, values)
    return {name: _decoded(value) for name, value in values.items()}
  except ValueError as error:
    raise ValueError(f"--examples={path}, line {number}: {error}") from error


def _request(
  path: str,
  first: int,
  last: int,
  rows: Sequence[Mapping[str, Any]],
  inputs: Mapping[str, TensorSpec],
) -> dict[str, np.ndarray]:
  """Returns the examples of some lines as one request."""
  try:
    columns = {name: [row[name] for row in rows] for name in inputs}
    return chain.checked_inputs(inputs, columns)
  except ValueError as error:
    where = f"--examples={path}, lines {first} to {last}"
    raise ValueError(f"{where}: {error}") from error


def _decoded(value: Any) -> Any:
  """Returns a value of JSON, with bytes in place of base 64."""
  if isinstance(value, dict):
    if [*value] != [_B64] or not isinstance(value[_B64], str):
      raise ValueError(f'{value} is not {{"b64": "..."}}')
    return base64.b64decode(value[_B64], validate=True)
  if isinstance(value, list):
    return [_decoded(x) for x in value]
  return value


def write(
  path: str | None, batches: Iterable[Mapping[str, np.ndarray]], stdout: IO[str]
) -> None:
  """Writes predictions.

  A file is there when it is complete.

  Args:
    path: The file; None to print them.
    batches: The outputs of requests, with a row for each example.
    stdout: Where to print them.

  Raises:
    ValueError: If a file cannot be written, or cannot hold them.
  """
  if path is None:
    _write_lines(stdout, batches)
    return
  temporary = f"{path}.{os.getpid()}.tmp"
  try:
    if path.endswith(_NPZ):
      _write_arrays(temporary, batches)
    else:
      with open(temporary, "w", encoding="utf-8") as file:
        _write_lines(file, batches)
    os.replace(temporary, path)
  except OSError as error:
    raise ValueError(
      f"--out={path} cannot be written: {error.strerror or error}"
    ) from error
  finally:
    if os.path.exists(temporary):
      os.remove(temporary)


def _write_lines(
  file: IO[str], batches: Iterable[Mapping[str, np.ndarray]]
) -> None:
  for batch in batches:
    for values in zip(*batch.values(), strict=True):
      row = dict(zip(batch, values, strict=True))
      line = json.dumps(row, default=_encoded, ensure_ascii=False)
      file.write(f"{line}\n")
    file.flush()


def _encoded(value: Any) -> Any:
  """Returns the value of JSON for bytes, or for an array or its entry."""
  if not isinstance(value, bytes):
    return value.tolist()
  try:
    return value.decode()
  except UnicodeDecodeError:
    return {_B64: base64.b64encode(value).decode()}


def _write_arrays(
  path: str, batches: Iterable[Mapping[str, np.ndarray]]
) -> None:
  parts: dict[str, list[np.ndarray]] = {}
  for batch in batches:
    for name, array in batch.items():
      parts.setdefault(name, []).append(array)
  columns = {}
  for name, arrays in parts.items():
    if len({array.shape[1:] for array in arrays}) > 1:
      raise ValueError(
        f"the output {name!r} has rows of different shapes, which .npz does "
        "not hold; use .jsonl"
      )
    columns[name] = _without_objects(name, np.concatenate(arrays))
  with open(path, "wb") as file:
    np.savez(file, **columns)


def _without_objects(name: str, array: np.ndarray) -> np.ndarray:
  """Returns texts as numpy's own, which a file can hold."""
  if array.dtype != object:
    return array
  texts = array.astype(np.bytes_)
  if not np.array_equal(texts.astype(object), array):
    raise ValueError(
      f"the output {name!r} has bytes that end in zeros, which .npz does not "
      "keep; use .jsonl"
    )
  return texts
