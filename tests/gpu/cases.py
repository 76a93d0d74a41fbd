"""What is tried on devices: models, nobody of whom was edited, and meshes.

Each case trains from a checkpoint of the plain model, and has to give the plain
run's losses. None draws random numbers in training: those of a GPU are others.
"""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import estimator_mp  # noqa: F401
from tests.estimator_mp.equality import bert
from tests.estimator_mp.models import catalogue, data

# What a case may need of GPUs.
CONVOLUTIONS = "cudnn"
TWO_CARDS = "two cards"


@dataclasses.dataclass(frozen=True)
class Case:
  """A model on a mesh.

  Attributes:
    model: The model; of `catalogue.PURE_NETWORKS`, and "bert".
    mesh: The mesh.
    options: Further options of its ShardingConfig.
    by_rules: Whether the model's own rules place it, and not "auto".
    needs: What of GPUs it needs, besides as many as the mesh has positions.
    exports: Whether it is exported, too, and the export asked on a CPU.
  """

  model: str
  mesh: str
  options: Mapping[str, Any] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )
  by_rules: bool = True
  needs: tuple[str, ...] = ()
  exports: bool = False


@dataclasses.dataclass(frozen=True)
class Model:
  """A model_fn with its params, rules and input."""

  model_fn: Callable[..., Any]
  params: Mapping[str, Any] | None
  rules: tuple[tuple[str, int], ...]
  input_fn: Callable[[], Any]


def model_of(case: Case) -> Model:
  """Returns the model of a case."""
  if case.model == "bert":
    return Model(bert.model_fn, None, (), bert.input_fn)
  found = catalogue.PURE_NETWORKS[case.model]
  return Model(found.model_fn, found.params, found.rules, data.input_fn)


def _pipeline(schedule: str, **options: Any) -> dict[str, Any]:
  return {"num_micro_batches": 5, "schedule": schedule, **options}


CASES = {
  # The networks on stages.
  **{
    f"stages_{name}": Case(name, "stage:3", exports=name == "deepfm")
    for name in catalogue.PURE_NETWORKS
    if name != "cnn"
  },
  "stages_cnn": Case("cnn", "stage:3", needs=(CONVOLUTIONS,)),
  # Orders of micro-batches.
  **{
    name: Case("mlp_adam", "stage:3", _pipeline(name))
    for name in ("gpipe", "1f1b", "zb1p", "zb2p")
  },
  "interleaved": Case(
    "bert",
    "stage:2",
    {
      "num_micro_batches": 4,
      "schedule": "interleaved",
      "num_virtual_stages": 2,
    },
    by_rules=False,
  ),
  "recompute": Case(
    "lstm", "stage:3", _pipeline("1f1b", recompute="always"), exports=True
  ),
  "pipelined_bert": Case("bert", "stage:3", {"num_micro_batches": 4}, False),
  # Replicas.
  "replicas": Case("deepfm", "data:2,stage:3"),
  "zero": Case("mlp_adam", "data:2", {"optimizer_state": "sharded"}, False),
  "shared": Case("mlp_ftrl", "data:3", {"variables": "shared"}, False),
  **{
    f"all_reduce_{name}": Case(
      "two_optimizers", "data:3", {"aggregation": name}, False
    )
    for name in ("copy", "ring", "tree", "hierarchical", "collective")
  },
  "all_reduce_nccl": Case(
    "two_optimizers", "data:2", {"aggregation": "nccl"}, False, (TWO_CARDS,)
  ),
  # The model axis, and tables over replicas.
  "model_axis_bert": Case("bert", "model:3", {}, False),
  "model_axis_stages": Case("transformer", "stage:3,model:2"),
  "model_axis_cnn": Case("cnn", "model:2", {}, False, (CONVOLUTIONS,)),
  "split_tables": Case(
    "deepfm", "data:2", {"split": (("embedding_weights", "mod"),)}, False
  ),
}
