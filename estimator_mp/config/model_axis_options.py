"""Options of the model axis: the split variables, and their initial values."""

import dataclasses
from typing import Any

from estimator_mp.config import options, split_rules
from estimator_mp.config.mesh_options import MeshOptions, parse_axes

_PLAIN_INITIAL_BYTES = 256 * 2**20
_option = options.Group("Sharding: the model axis")


@dataclasses.dataclass(frozen=True)
class ModelAxisOptions(MeshOptions):
  """The variables that are split.

  Attributes:
    split: Variables that are split over the `model` axis of the mesh. "auto"
      finds the axes that send least under the memory limit, if there is such an
      axis. Or pairs of a regular expression for names of variables, and the
      split: a dimension, from 0; for a table of embeddings "mod" (row i is on
      device i % N), "div" (consecutive rows), "columns", or "whole" (each such
      table is on one device, so that all have as many bytes); or None, which
      keeps it whole. The first expression that is found in a name counts.
      Variables without a match are split only with their owner, as a slot is
      with its variable, and a bias with its layer. Without a `model` axis
      tables are split over the `data` axis, whose replicas have all the rest,
      as DLRM's trainers do (Naumov et al., 2019, arXiv:1906.00091).
    gathers: "allow" gathers a split tensor for an op that has no rule for it,
      and lists it; with "error" that is an error.
    initial_values: "plain" starts a split variable from slices of the plain
      model's initial value, as long as that has at most `plain_initial_bytes`;
      "by_shard" draws each shard by itself, from a seed that follows from name
      and shard, so that no device makes a whole one.
    plain_initial_bytes: Maximum bytes of a variable that "plain" initializes
      whole, as an integer or as text such as "256MiB". A larger one is drawn by
      shard.
    export_shards: Whether a SavedModel keeps the split, for serving on as many
      devices. By default it is the plain model's, which any server loads.
  """

  # "auto" or rules.
  split: Any = _option(
    split_rules.AUTO,
    "Variables that are split over the model axis: auto, or rules as JSON,"
    " pairs of a regular expression for names and a dimension; mod, div,"
    " columns or whole for tables; or null to keep a variable whole:"
    ' [["ffn/kernel", 1], ["table", "mod"]].',
  )
  gathers: str = _option(
    "allow",
    "Whether a split tensor may be gathered for an op without a rule.",
    choices=("allow", "error"),
  )
  initial_values: str = _option(
    "plain",
    "Initial values of split variables: slices of the plain model's, or drawn"
    " for each shard.",
    choices=("plain", "by_shard"),
  )
  plain_initial_bytes: options.Bytes = _option(
    _PLAIN_INITIAL_BYTES,
    "Maximum size of a split variable that --initial_values=plain"
    " initializes whole; larger ones are initialized by shard.",
  )
  export_shards: bool = _option(
    False,
    "Export a SavedModel with split variables, for serving on several devices;"
    " by default it is the plain model's.",
  )

  def check_split(self) -> None:
    """Raises if a rule is malformed, or there is no axis to split over."""
    axes = parse_axes(self.mesh)
    split = split_rules.checked_split(self.split, self.mesh, axes)
    object.__setattr__(self, "split", split)
