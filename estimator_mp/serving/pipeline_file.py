"""pipeline.json: the way of tensors in a chain of stages, as plain data.

    {"format": 1, "id": "...", "checkpoint_step": 600,
     "stages": [{"stage": 0, "folder": "stage_0", "devices": 1,
                 "variables": ["dense/bias", "dense/kernel"],
                 "values": "..."}, ...],
     "signatures": {"serving_default": {
       "inputs": {"x": {"dtype": "float32", "shape": [null, 20]}},
       "steps": [{"stage": 0, "signature": "serving_default",
                  "inputs": {"x": {"step": null, "name": "x"}},
                  "outputs": {"dense/Relu:0": {"dtype": ..., "shape": ...}}},
                 ...],
       "outputs": {"y": {"step": 1, "name": "dense_1/BiasAdd:0"}}}}}

A step is one request to one stage. Its inputs come from the caller (the step is
null) or from an earlier step, whichever that was: a stage in between does not
copy them.

The id is a hash of the rest. That has a hash of each stage's values, so that no
stage fits into the chain of another model, or of another training of it.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from estimator_mp import json_values
from estimator_mp.config import files

import tensorflow as tf

FILE = "pipeline.json"
STAGE_FILE = "stage.json"
_FORMAT = 1
# Where a SavedModel has them.
_VALUES = ("variables", "assets")
_PIECE_BYTES = 1 << 20
# Of one machine; TensorFlow makes as many as it is told.
_MOST_DEVICES = 1024


@dataclasses.dataclass(frozen=True)
class TensorSpec:
  """The description of a tensor.

  Attributes:
    dtype: The name of its dtype, such as "float32" or "string".
    shape: Its dimensions, None for one that is not known before there is a
      request; None if nothing is known of it.
  """

  dtype: str
  shape: tuple[int | None, ...] | None

  @classmethod
  def of(cls, tensor: tf.Tensor) -> "TensorSpec":
    """Returns the description of a tensor of a graph."""
    rank = tensor.shape.rank
    shape = None if rank is None else tuple(tensor.shape.as_list())
    return cls(tensor.dtype.base_dtype.name, shape)


@dataclasses.dataclass(frozen=True)
class Source:
  """Where a tensor comes from.

  Attributes:
    step: The number of the step that made it; None if the caller gave it.
    name: Its name among the outputs of that step, or the caller's inputs.
  """

  step: int | None
  name: str


@dataclasses.dataclass(frozen=True)
class Step:
  """One request to one stage.

  Attributes:
    stage: The stage.
    signature: The signature of its SavedModel.
    inputs: Where each input of the signature comes from.
    outputs: The outputs of the signature.
  """

  stage: int
  signature: str
  inputs: Mapping[str, Source]
  outputs: Mapping[str, TensorSpec]


@dataclasses.dataclass(frozen=True)
class Signature:
  """A way to use the whole model: one of its export outputs.

  Attributes:
    inputs: The inputs of the caller.
    steps: The steps, in order.
    outputs: Where each result comes from.
  """

  inputs: Mapping[str, TensorSpec]
  steps: tuple[Step, ...]
  outputs: Mapping[str, Source]

  def output_spec(self, name: str) -> TensorSpec:
    """Returns the description of a result.

    Args:
      name: Its name.
    """
    source = self.outputs[name]
    if source.step is None:
      return self.inputs[source.name]
    return self.steps[source.step].outputs[source.name]


@dataclasses.dataclass(frozen=True)
class Stage:
  """One SavedModel.

  Attributes:
    stage: The stage's coordinate on the mesh.
    folder: Its folder, below that of pipeline.json.
    devices: How many devices it needs: more than one if it keeps its split
      over a `model` axis.
    variables: The names of its variables in the checkpoint.
    values: The `digest` of its variables and vocabularies.
  """

  stage: int
  folder: str
  devices: int
  variables: tuple[str, ...]
  values: str


@dataclasses.dataclass(frozen=True)
class Pipeline:
  """A chain of stages.

  Attributes:
    checkpoint_step: The global step of the checkpoint; None if it has none.
    stages: The stages that have something to do, in order.
    signatures: The signatures, by their names.
  """

  checkpoint_step: int | None
  stages: tuple[Stage, ...]
  signatures: Mapping[str, Signature]

  def to_dict(self) -> dict[str, Any]:
    """Returns the chain as JSON can write it, with its identity."""
    values = dataclasses.asdict(self)
    text = json.dumps(values, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"format": _FORMAT, "id": digest, **values}

  @property
  def identity(self) -> str:
    """The identity of this chain; other models and checkpoints have others."""
    return str(self.to_dict()["id"])


@dataclasses.dataclass(frozen=True)
class StageDescription:
  """The description in the folder of a stage.

  Attributes:
    pipeline: The identity of its chain.
    stage: The stage's coordinate on the mesh.
    devices: How many devices it needs.
  """

  pipeline: str
  stage: int
  devices: int


def write(pipeline: Pipeline, folder: str) -> None:
  """Writes pipeline.json, and a file for each stage that names its chain.

  Args:
    pipeline: The chain.
    folder: The folder, which has those of the stages.
  """
  values = pipeline.to_dict()
  for stage in pipeline.stages:
    of_stage = StageDescription(values["id"], stage.stage, stage.devices)
    files.write_json(
      os.path.join(folder, stage.folder, STAGE_FILE),
      {"format": _FORMAT, **dataclasses.asdict(of_stage)},
    )
  files.write_json(os.path.join(folder, FILE), values)


def digest(folder: str) -> str:
  """Returns a hash of the values of a SavedModel: variables, assets.

  It holds a piece of a file at a time, and is the same for each export of the
  same checkpoint.

  Args:
    folder: The folder of the SavedModel.
  """
  hashed = hashlib.sha256()
  for kind in _VALUES:
    path = os.path.join(folder, kind)
    names = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    for name in sorted(names):
      with tf.io.gfile.GFile(os.path.join(path, name), "rb") as file:
        hashed.update(f"{kind}/{name}:{file.size()}:".encode())
        while piece := file.read(_PIECE_BYTES):
          hashed.update(piece)
  return hashed.hexdigest()


def find(path: str) -> str:
  """Returns the folder of a pipeline.json.

  Args:
    path: That folder, or the one in which `export_stages` made it; then it is
      the newest.

  Raises:
    ValueError: If there is none.
  """
  if tf.io.gfile.exists(os.path.join(path, FILE)):
    return path
  exports = []
  if tf.io.gfile.isdir(path):
    names = [x.rstrip("/") for x in tf.io.gfile.listdir(path)]
    exports = [x for x in names if x.isdigit()]
  for name in sorted(exports, key=int, reverse=True):
    if tf.io.gfile.exists(os.path.join(path, name, FILE)):
      return os.path.join(path, name)
  raise ValueError(
    f"{path} holds no {FILE}; give the folder that estimator_mp.export_stages "
    "returned"
  )


def read(folder: str) -> Pipeline:
  """Returns the chain that a folder holds.

  Args:
    folder: A folder with a pipeline.json.

  Raises:
    ValueError: If there is none, or it is not as `write` writes it.
  """
  path = os.path.join(folder, FILE)
  values = _read_json(path)
  try:
    pipeline: Pipeline = json_values.load(Pipeline, values)
    _check_chain(pipeline)
  except ValueError as error:
    raise _malformed(path, error) from error
  return pipeline


def read_stage(folder: str) -> StageDescription:
  """Returns the description in the folder of a stage.

  Args:
    folder: The folder, wherever it was copied to.

  Raises:
    ValueError: If it is no folder of a stage.
  """
  path = os.path.join(folder, STAGE_FILE)
  values = _read_json(path)
  try:
    described: StageDescription = json_values.load(StageDescription, values)
    _check_devices(described.devices, "it")
  except ValueError as error:
    raise _malformed(path, error) from error
  return described


def _malformed(path: str, error: ValueError) -> ValueError:
  return ValueError(
    f"{path} is not as estimator_mp.export_stages writes it ({error}); export "
    "the stages again"
  )


def _check_devices(count: int, name: str) -> None:
  if not 1 <= count <= _MOST_DEVICES:
    raise ValueError(
      f"{name} has {count} devices, which should be 1 to {_MOST_DEVICES}"
    )


def _check_chain(pipeline: Pipeline) -> None:
  """Raises if a chain names a stage or a folder that it does not have."""
  for stage in pipeline.stages:
    name = f"stage {stage.stage}"
    folder = stage.folder
    if os.path.basename(folder) != folder or folder in ("", ".", ".."):
      raise ValueError(
        f"{name} is in {folder!r}, which is not a folder beside {FILE}"
      )
    _check_devices(stage.devices, name)
  for name, signature in pipeline.signatures.items():
    _check_signature(name, signature, {x.stage for x in pipeline.stages})


def _check_signature(
  name: str, signature: Signature, stages: Collection[int]
) -> None:
  """Raises if a step reads a tensor that no step before it makes."""
  there = {Source(None, x) for x in signature.inputs}
  specs = [*signature.inputs.values()]
  for number, step in enumerate(signature.steps):
    if step.stage not in stages:
      raise ValueError(
        f"step {number} of {name!r} is on stage {step.stage}, which it does "
        "not have"
      )
    _check_sources(f"step {number} of {name!r}", step.inputs.values(), there)
    there |= {Source(number, x) for x in step.outputs}
    specs += step.outputs.values()
  _check_sources(f"{name!r}", signature.outputs.values(), there)
  for dtype in {spec.dtype for spec in specs}:
    try:
      tf.dtypes.as_dtype(dtype)
    except TypeError as error:
      raise ValueError(f"{dtype!r} in {name!r} is not a dtype") from error


def _check_sources(
  name: str, sources: Iterable[Source], there: Collection[Source]
) -> None:
  for source in sources:
    if source not in there:
      raise ValueError(
        f"{name} reads {source.name!r} of step {source.step}, which no step "
        "before it makes"
      )


def _read_json(path: str) -> dict[str, Any]:
  """Returns the JSON object of a file.

  Raises:
    ValueError: If there is none, or a newer library wrote it.
  """
  try:
    return files.read_json(path, _FORMAT, "export the stages again")
  except tf.errors.NotFoundError as error:
    raise ValueError(
      f"there is no {path}; give a folder that estimator_mp.export_stages made"
    ) from error
  except files.FormatError as error:
    raise ValueError(f"{path} cannot be read: {error}") from error
  except (tf.errors.OpError, ValueError) as error:
    raise ValueError(
      f"{path} cannot be read: {error}; export the stages again"
    ) from error
