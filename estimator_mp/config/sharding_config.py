"""ShardingConfig: everything a user says about how a model is sharded."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp import mesh as mesh_lib
from estimator_mp.config import measured_costs as measured_costs_lib
from estimator_mp.config import (
  options,
  placement_file,
  sharding_options,
)
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.algorithms import ALGORITHMS, check_algorithm

from absl import flags


@dataclasses.dataclass(frozen=True)
class ShardingConfig(sharding_options.ShardingOptions):
  """How a model is sharded. Checked when it is made, before any graph.

  Attributes:
    mesh: The mesh as text, such as "stage:3".
    devices: Device names for the mesh, as many as it has positions; empty for
      this machine's GPUs, or virtual CPU devices if it has none.
    placement: Where `shard_model_fn` puts the parts of a model: "auto"; rules
      (pairs of a regular expression and a stage, in order); a `Placement`; or
      the path of a placement.json that training or `inspect` wrote, which is
      read at once. What model_fn itself places by `estimator_mp.stage` or
      `tf.device` stays there.
    memory_limit: The bytes that the automatic placement may put on a device:
      weights with gradients and two slots, and activations. None for no limit.
    measured_costs: What `measure_costs` returned, or the path of the file that
      it was saved to, which is read at once: the automatic placement then goes
      by these seconds. None for estimates from FLOPs and bytes.
    verify_placement: Whether the first step of a session compares where ops
      really ran with where they were placed.
    num_micro_batches: Into how many slices `shard_model_fn` cuts a batch in
      training, so that stages work on different ones at the same time.
      Gradients and loss are those of the whole batch.
    schedule: In which order each stage takes micro-batches: "1f1b", "gpipe",
      "interleaved", or "none" for none; see `schedule.make_schedule`.
    num_virtual_stages: How many stages of the model each device has, if the
      schedule is "interleaved". The model is cut into that many times the
      stages of the mesh, and stage c is on device c % K of K.
    gradient_accumulation_steps: In how many rounds a batch goes through the
      stages, each of `num_micro_batches`, so that no round holds more than
      these. The weights change after the last one; a training step is still
      one batch.
    recompute: "always" keeps of each micro-batch only what a stage reads from
      others, and computes the rest again in the backward pass; "except_last"
      does not where the backward pass follows the forward pass at once (the
      last micro-batch of gpipe, the last stage of 1f1b); "never" keeps all.
    batch_norm: How batch normalisation updates its moving averages, and
      model_fn other variables, from the features: "deferred" is once per batch,
      from the mean over micro-batches; "per_micro_batch" is once for each of
      them, one after the other, with the first one last.
    loss_reduction: What a loss is to be taken for where the graph does not
      tell: "mean" if it is a mean over examples, "sum" if it is their sum.
      With "auto" that is an error.
    state_updates: How values of micro-batches are merged before they are
      written to variables, where the graph does not tell: pairs of a regular
      expression for names of variables, and "mean", "sum", "concat" or
      "first".
    variables: "mirrored" gives each replica (`data` axis of the mesh) copies of
      the variables, which a training step keeps equal; "shared" lets all
      replicas read those of replica 0.
    optimizer_state: "replicated" lets each replica update all of its variables;
      with "sharded" each variable belongs to one replica, with its slots, which
      sends the others its new value (ZeRO-1).
    aggregation: How gradients are summed over replicas: an algorithm of
      `all_reduce`; "auto" for one that suits the devices; or "horovod" if each
      process holds one replica (see `replicas.horovod`).
    bucket_bytes: The most bytes of dense gradients that are summed at once. One
      that is as large is summed alone. 0 sums each alone.
    chunk_bytes: A dense gradient of more bytes is summed in pieces of at most
      as many; None: in one.
    compression: What replicas send: "none" is everything, "float16" and
      "bfloat16" are everything in half precision, "top_k" the largest entries.
      What a step does not send is added to the next step's gradient.
    top_k_fraction: Which part of the entries "top_k" sends.
    sparse_as_dense: A sparse gradient is summed as a dense one if the rows of
      all replicas, as a part of the table's, are this many; None: never. It
      changes what clipping by a global norm sees of repeated rows.
    batch_axis: The axes of examples in features and labels that do not have
      them on axis 0: pairs of a regular expression for names such as
      "features/x", and an axis, or None for a tensor without examples.

  Raises:
    ValueError: If a field has the wrong type, the mesh cannot be made (see
      `Mesh.create`), a rule is malformed, the memory limit is not positive or
      given without automatic placement, or a placement or costs cannot be
      read.
  """

  def __post_init__(self) -> None:
    super().__post_init__()
    mesh = self.create_mesh()
    self._check_aggregation(mesh)
    placement = placement_file.resolve_placement(self.placement)
    object.__setattr__(self, "placement", placement)
    if isinstance(placement, placement_lib.Placement):
      placement.check_mesh(mesh)
    measured = measured_costs_lib.resolve_measured_costs(self.measured_costs)
    object.__setattr__(self, "measured_costs", measured)

  def _check_aggregation(self, mesh: mesh_lib.Mesh) -> None:
    """Raises if gradients cannot be summed over the replicas of a mesh."""
    replicas = range(mesh.axis_size("data"))
    for stage in range(mesh.axis_size("stage")):
      if self.aggregation in ALGORITHMS:
        devices = [mesh.device(data=r, stage=stage) for r in replicas]
        check_algorithm(self.aggregation, devices)

  def create_mesh(self) -> mesh_lib.Mesh:
    """Returns the mesh that this configuration describes.

    With virtual stages, its stage axis goes that many times around the devices.
    """
    mesh = mesh_lib.Mesh.create(self.mesh, self.devices)
    if self.num_virtual_stages == 1:
      return mesh
    return mesh.with_virtual_stages(self.num_virtual_stages)

  @property
  def measured_seconds(self) -> Mapping[str, float] | None:
    """The measured seconds of ops, by name; None if there are none."""
    measured = self.measured_costs
    if isinstance(measured, measured_costs_lib.MeasuredCosts):
      return measured.seconds
    return None

  @classmethod
  def of(cls, words: sharding_options.ShardingOptions) -> "ShardingConfig":
    """Returns the configuration that options describe.

    Args:
      words: The options.

    Raises:
      ValueError: If this machine has no such mesh, or a file cannot be read.
    """
    fields = dataclasses.fields(words)
    return cls(**{field.name: getattr(words, field.name) for field in fields})

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> "ShardingConfig":
    """Returns the configuration that a dict describes.

    Args:
      values: Fields by name, each as the field itself or as `to_dict` writes
        it. What is left out has its default.

    Raises:
      ValueError: If there is no such field, or the configuration is wrong.
    """
    options.check_names(cls, values)
    return cls(**values)

  def to_dict(self) -> dict[str, Any]:
    """Returns all fields by name, as JSON can write them."""
    return {
      field.name: options.to_plain(getattr(self, field.name))
      for field in dataclasses.fields(self)
    }

  @classmethod
  def from_json(cls, text: str) -> "ShardingConfig":
    """Returns the configuration that a JSON object describes.

    Args:
      text: An object such as `to_json` returns.

    Raises:
      ValueError: If it is no JSON; or as for `from_dict`.
    """
    return cls.from_dict(options.parse_json(text))

  def to_json(self) -> str:
    """Returns the configuration as JSON; `from_json` reads it."""
    return json.dumps(self.to_dict())

  @classmethod
  def from_flags(
    cls, flag_values: flags.FlagValues = flags.FLAGS
  ) -> "ShardingConfig":
    """Returns the configuration that a program's flags describe.

    Args:
      flag_values: The flags that `define_sharding_flags` defined, parsed.

    Raises:
      ValueError: If the flags were not defined, or the configuration is wrong.
    """
    return options.from_flags(cls, flag_values)


def check_config(config: ShardingConfig) -> None:
  """Raises if something is no ShardingConfig.

  Args:
    config: What should be one.

  Raises:
    ValueError: If it is none.
  """
  if not isinstance(config, ShardingConfig):
    raise ValueError(
      f"config={config!r} is no ShardingConfig; write it like "
      'estimator_mp.ShardingConfig(mesh="stage:2")'
    )


def define_sharding_flags(
  flag_values: flags.FlagValues = flags.FLAGS,
  only: Sequence[str] | None = None,
  choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
  **defaults: Any,
) -> None:
  """Defines a flag for each field of `ShardingConfig`, under its name.

  Call it before the flags are parsed, as at the top of a program;
  `ShardingConfig.from_flags` reads them.

  Args:
    flag_values: Where to define them; absl's own if left out.
    only: The names of the fields to define flags for; None for all.
    choices: Fewer words than a field may be, by its name, where the program
      cannot use all.
    **defaults: The program's own defaults, such as `mesh="stage:4"`.

  Raises:
    ValueError: If `only`, `choices` or `defaults` name what is no field, or
      a word that the field cannot be.
  """
  options.define_flags(ShardingConfig, flag_values, only, choices, **defaults)
