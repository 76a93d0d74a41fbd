"""Placement files: the placement.json that training writes into a model_dir.

Evaluation and prediction read it, and so does a run that names it as placement.
"""

import os
from collections.abc import Mapping
from typing import Any

from estimator_mp import mesh as mesh_lib
from estimator_mp.config import files
from estimator_mp.config.placement import (
  Placement,
  is_strategy,
  names_of_strategies,
)

import tensorflow as tf

PLACEMENT_FILE = "placement.json"
_FORMAT = 1


class PlacementFileError(ValueError):
  """A placement.json cannot be read; the text is one line."""


def save_placement(
  placement: Placement, model_dir: str, mesh: mesh_lib.Mesh
) -> None:
  """Writes a placement into a model_dir, for evaluation and prediction.

  Args:
    placement: The placement.
    model_dir: The folder; made if it does not exist.
    mesh: The mesh that it is for.
  """
  tf.io.gfile.makedirs(model_dir)
  path = os.path.join(model_dir, PLACEMENT_FILE)
  files.write_json(path, dict_of_placement(placement, mesh))


def dict_of_placement(
  placement: Placement, mesh: mesh_lib.Mesh
) -> dict[str, Any]:
  """Returns the value of JSON that `save_placement` writes.

  Args:
    placement: The placement.
    mesh: The mesh that it is for.
  """
  return {"format": _FORMAT, "mesh": str(mesh), **placement.to_dict()}


def load_placement(
  model_dir: str | None, mesh: mesh_lib.Mesh
) -> Placement | None:
  """Returns the placement that was written into a model_dir.

  Args:
    model_dir: The folder, if there is one.
    mesh: The mesh that it has to be for.

  Returns:
    The placement; None if there is none, or one for another mesh.

  Raises:
    PlacementFileError: If the file is damaged.
  """
  path = os.path.join(model_dir or "", PLACEMENT_FILE)
  if not model_dir or not tf.io.gfile.exists(path):
    return None
  values = _read(path)
  if "mesh" not in values:
    raise _damaged(path, "it has no 'mesh'")
  if not isinstance(values["mesh"], str):
    raise _damaged(
      path, f"its mesh is {values['mesh']!r}, which is not a string"
    )
  if values["mesh"] != str(mesh):
    return None
  return _placement_of_file(path, values)


def resolve_placement(given: Any) -> Any:
  """Returns the placement of `ShardingConfig.placement`.

  Args:
    given: The name of a strategy, rules, a `Placement`, a dict of
      `Placement.to_dict`, or the path of a placement.json.

  Returns:
    A name, rules as a tuple, or a `Placement`.

  Raises:
    ValueError: If it is nothing of these, or the file cannot be read.
  """
  if isinstance(given, Placement) or is_strategy(given):
    return given
  if isinstance(given, str) and given.endswith(".json"):
    if not tf.io.gfile.exists(given):
      raise ValueError(
        f"placement={given!r} does not exist; give the path of a "
        f"{PLACEMENT_FILE} that training wrote into its model_dir"
      )
    return _placement_of_file(given, _read(given))
  if isinstance(given, Mapping) and "stages" in given:
    try:
      return Placement.from_dict(given)
    except ValueError as error:
      raise ValueError(
        f"placement is not a dict of Placement.to_dict(): {error}; write it "
        "again"
      ) from error
  if isinstance(given, tuple | list):
    return tuple(tuple(x) if isinstance(x, list) else x for x in given)
  raise ValueError(
    f"placement={given!r} is unknown; use {names_of_strategies()}, rules such "
    "as "
    '[("layer_[0-5]/", 0), (".*", 1)], a Placement, or the path of a '
    f"{PLACEMENT_FILE}"
  )


def _read(path: str) -> dict[str, Any]:
  """Returns the JSON object of a file."""
  otherwise = "train or plan again to write a new one"
  try:
    return files.read_json(path, _FORMAT, otherwise)
  except files.FormatError as error:
    raise PlacementFileError(f"{path}: {error}") from error
  except (ValueError, tf.errors.OpError) as error:
    raise _damaged(path, error) from error


def _placement_of_file(path: str, values: Mapping[str, Any]) -> Placement:
  try:
    return Placement.from_dict(values)
  except ValueError as error:
    raise _damaged(path, error) from error


def _damaged(path: str, reason: object) -> PlacementFileError:
  return PlacementFileError(
    f"{path} holds no placement ({reason}); delete it, and train or plan "
    "again to write a new one"
  )
