"""The recipes by name, as far as flags have to know of them.

No TensorFlow is needed here, so a command can check its flags at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# The values of --optimizer; the last is the optimizer of the model's paper.
OWN = "own"
OPTIMIZERS = ("adam", "adagrad", "momentum", "rmsprop", "sgd", OWN)


@dataclasses.dataclass(frozen=True)
class Entry:
  """The facts about a recipe that flags need.

  Attributes:
    home: The module of this folder whose `recipe` makes it.
    datasets: The data sets that it can learn from; the first is the default.
    defaults: The flags of the train command that have another default for it
      than for cifar10_cnn, by name.
    without: The flags that it has no use for, each with the reason.
    choices: The flags that take fewer words for it.
    has_own_optimizer: Whether --optimizer may be "own".
  """

  home: str
  datasets: tuple[str, ...]
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  without: Mapping[str, str] = dataclasses.field(default_factory=dict)
  choices: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=dict
  )
  has_own_optimizer: bool = False


_PLACED = "layer_split places its layers, a device for each stage"
_KNOWN_LOSS = "its loss is known, and it is no sum over other parts of a batch"
_NO_TABLES = "it has neither tables nor other inputs than images"
_IMAGES = Entry(
  "images",
  ("digits", "cifar10"),
  without={
    "placement": _PLACED,
    "memory_limit": _PLACED,
    "measured_costs": _PLACED,
    "num_virtual_stages": _PLACED,
    "gradient_accumulation_steps": _KNOWN_LOSS,
    "batch_norm": _KNOWN_LOSS,
    "batch_axis": _NO_TABLES,
    "plain_initial_bytes": _NO_TABLES,
  },
  choices={"schedule": ("none", "gpipe", "1f1b", "zb1p", "zb2p", "auto")},
)
_TWO_TOWER = Entry(
  "two_tower",
  ("generated_interactions",),
  defaults={
    "mesh": "stage:2",
    "num_micro_batches": 2,
    "batch_size": 512,
    "learning_rate": 0.003,
  },
  without={
    "data_dir": "its log is generated",
    "batch_norm": "it normalises no batches",
    "batch_axis": "all of its inputs have their examples on axis 0",
  },
)

_RESNET = Entry(
  "resnet",
  ("digits", "cifar10"),
  defaults={
    "mesh": "stage:2",
    "num_micro_batches": 2,
    "optimizer": OWN,
    "learning_rate": 0.1,
  },
  without={
    "batch_axis": _NO_TABLES,
  },
  has_own_optimizer=True,
)
_OF_CLICKS: Mapping[str, Any] = {
  "mesh": "data:4",
  "num_micro_batches": 1,
  "split": '[["tables/", "div"]]',
  "batch_size": 512,
  "train_steps": 1500,
  "save_checkpoints_steps": 500,
}


def _ranking(**defaults: Any) -> Entry:
  """Returns the entry of a model of clicks."""
  return Entry("ranking", ("clicks", "criteo"), {**_OF_CLICKS, **defaults})


_OF_TEXT: Mapping[str, Any] = {
  "batch_size": 32,
  "train_steps": 600,
  "learning_rate": 0.002,
  "save_checkpoints_steps": 300,
}


def _language_model(**defaults: Any) -> Entry:
  """Returns the entry of a language model."""
  return Entry("texts", ("python_docs", "text"), {**_OF_TEXT, **defaults})


_KERAS = Entry(
  "keras_classifier",
  ("digits", "cifar10"),
  defaults={"mesh": "stage:2"},
  without={
    "batch_norm": "it normalises no batches",
    "batch_axis": "its input has its examples on axis 0",
  },
)

ENTRIES: Mapping[str, Entry] = {
  "cifar10_cnn": _IMAGES,
  "mlp": _IMAGES,
  "resnet": _RESNET,
  "keras": _KERAS,
  "dlrm": _ranking(learning_rate=0.003),
  "wide_deep": dataclasses.replace(
    _ranking(optimizer=OWN, learning_rate=0.2), has_own_optimizer=True
  ),
  "deepfm": _ranking(learning_rate=0.005),
  "two_tower": _TWO_TOWER,
  "transformer": _language_model(mesh="stage:2"),
  "moe": _language_model(mesh="model:2", num_micro_batches=1),
}


def datasets() -> tuple[str, ...]:
  """Returns the data sets of all recipes, each once."""
  every = (name for entry in ENTRIES.values() for name in entry.datasets)
  return tuple(dict.fromkeys(every))
