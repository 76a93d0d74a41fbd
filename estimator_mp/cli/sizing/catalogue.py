"""The families by name, as far as flags have to know of them.

No TensorFlow is needed here, so a command can check its flags at once.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Family:
  """Models that differ by one size.

  Attributes:
    size: The size that is free.
    sizes: The others, with their defaults.
    empty: Other sizes, so small that a model of the same ops has next to no
      tensors.
  """

  size: str
  sizes: Mapping[str, int]
  empty: Mapping[str, int]


_TRANSFORMER = {
  "hidden_size": 512,
  "num_heads": 8,
  "sequence_length": 64,
  "vocabulary_size": 256,
}
_EMPTY_TRANSFORMER = {"hidden_size": 8, "vocabulary_size": 8}

FAMILIES: Mapping[str, Family] = {
  "transformer": Family("num_layers", _TRANSFORMER, _EMPTY_TRANSFORMER),
  "moe": Family(
    "num_layers",
    {**_TRANSFORMER, "hidden_size": 256, "num_experts": 4},
    _EMPTY_TRANSFORMER,
  ),
}
