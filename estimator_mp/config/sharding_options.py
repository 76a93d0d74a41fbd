"""The options of sharding, and checks that need no devices.

They need no TensorFlow, so that a wrong flag is an error at once;
`ShardingConfig` checks them on a machine. A new option is a field here, with
its text in the docstring.
"""

import dataclasses
from typing import Any, TypeAlias

from estimator_mp.config import (
  mesh_axes,
  name_rules,
  options,
  split_rules,
)
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.algorithms import ALGORITHMS
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib

# An expression for names, and the stage of ops with such a name.
PlacementRule: TypeAlias = tuple[str, int]
# An expression for names such as "features/x", and the axis of its examples;
# None for a tensor that belongs to the whole batch.
BatchAxis: TypeAlias = tuple[str, int | None]

HALF_PRECISIONS = ("float16", "bfloat16")
# The options that mesh="auto" finds.
_SEARCHED = frozenset(
  [
    "aggregation",
    "num_micro_batches",
    "num_virtual_stages",
    "optimizer_state",
    "recompute",
    "schedule",
  ]
)
# Between processes; `replicas.horovod` does it, and not the replicas here.
HOROVOD = "horovod"

MESH = options.Group("Sharding: the mesh")
PIPELINE = options.Group("Sharding: micro-batches")
BATCH = options.Group("Sharding: the batch")
REPLICAS = options.Group("Sharding: replicas")
MODEL_AXIS = options.Group("Sharding: the model axis")


@dataclasses.dataclass(frozen=True)
class ShardingOptions:
  """How a model is sharded; checked when it is made.

  Attributes:
    mesh: Axes and sizes of the mesh: "stage:3" spreads the model over three
      devices, "data:2,stage:2" has two replicas of two stages each, "stage:1"
      keeps the model on one device. "auto" finds the mesh, number of slices,
      schedule, recomputation and aggregation that take the least time by the
      simulator, and keeps the choice with the checkpoints.
    devices: Devices of the mesh, as many as it has positions, such as
      gpu:0,gpu:1,gpu:2. By default this machine's GPUs, or virtual CPU devices
      if it has none. With mesh=auto their number, such as 8, will do.
    placement: Assignment of ops to stages: "auto" cuts the model into stages of
      balanced cost. Or rules, pairs of a regular expression for names and a
      stage, of which the first that is found counts: [["layer_[0-5]/", 0],
      [".*", 1]]. Or a `Placement`, or the path of a placement.json that
      training or `plan` wrote, which is read at once. Ops that model_fn
      itself places by `estimator_mp.stage` or `tf.device` stay there.
    memory_limit: Memory limit of a device for the automatic placement, such as
      500MB or 256MiB: weights with gradients and two slots, and activations. By
      default there is none.
    measured_costs: The `MeasuredCosts` of `measure_costs`, or the path of the
      file that they were saved to, which is read at once. The automatic
      placement and the schedule "auto" then use these seconds, instead of
      estimates from FLOPs and bytes.
    machine: The machine for which steps are simulated: the path of a TOML file,
      or the name of one that comes with the package, such as a100. By default
      one like this.
    verify_placement: Whether the first step of a session checks that each op
      ran on its planned device.
    num_micro_batches: Number of slices of a training batch, which flow through
      the stages so that these work at the same time. Gradients and loss are
      those of the whole batch.
    schedule: Order in which a stage executes micro-batches: "auto" for the
      fastest that is found for the model, "none" for none; see
      `schedule.make_schedule` for the others.
    max_live_micro_batches: Maximum number of micro-batches that a device holds
      at a time, from their forward pass until the gradients of their weights
      are computed, if the schedule is "auto". By default the number of devices
      in the pipeline, as the first one holds with "1f1b".
    num_virtual_stages: Stages of the model per device: 2 or more if the
      schedule is "interleaved", 2 if it is "zbv", otherwise 1. By default the
      minimum. The model is cut into that many times the stages of the mesh.
      Stage c of K devices is on device c % K; with "zbv" stages from K on go
      back, and c is on 2 * K - 1 - c.
    gradient_accumulation_steps: Number of rounds in which a batch flows through
      the stages, each of `num_micro_batches`, so that no round holds more than
      these. The weights are updated after the last one; a training step is
      still one batch.
    recompute: "always" keeps only the inputs of a stage for each micro-batch,
      and recomputes the other activations in the backward pass; "except_last"
      does so unless the backward pass follows the forward pass at once (the
      last micro-batch of gpipe, the last stage of 1f1b); "never" keeps all.
    weight_gradients: Whether a weight's gradient is one product per
      micro-batch, "each", or one over the rows of several, which makes fewer
      and larger products and sums, but keeps their operands until then:
      "batched" takes all micro-batches of a round, "auto" as many as have no
      more bytes than the gradient. If the graph does not have a static batch
      size, "auto" is "each"; ops whose activations are recomputed always use
      "each".
    transfer_dtype: Data type in which stages send each other activations and
      their gradients in training: "float32" sends them unchanged; "float16" and
      "bfloat16" cast float32 tensors before they are sent, and cast them back.
      Inputs, variables, scalars and tensors in a v1 cond or loop are sent
      unchanged.
    batch_axis: Batch axis of features and labels whose examples are not on axis
      0: pairs of a regular expression for names such as "features/x", and an
      axis, or None (null in JSON) for a tensor without examples:
      [["features/mask", null]].
    static_batch_size: Number of examples of every batch that trains, if
      input_fn leaves it open and model_fn has it as a number, as in a reshape
      to [64, -1, 3]: features and labels have it before model_fn sees them, and
      each step checks it. `drop_remainder=True` of a data set says it as well.
    per_example: Regular expressions for names of ops that have no rule but
      compute each example by itself, such as Python functions: they are
      executed in parts of the batch, in training, evaluation and prediction.
      Their outputs have the examples on axis 0.
    fallback: "allow" executes an op without a rule for parts of the batch once,
      on joined tensors, and lists it; with "error" that is an error.
    draws: "per_slice" lets each slice draw its part of random numbers, from
      seeds that follow from the op's and from the number of the slice; "whole"
      draws them once, as the plain run does, and cuts them.
    batch_norm: "whole" normalizes by the moments of the whole batch, as the
      plain model does: slices exchange them. With "per_micro_batch" each slice
      uses its own moments, so that no slice waits for another; moving averages
      move once, by the mean of the slices' moments. It applies to fused batch
      normalization; one of plain ops stays the plain model's.
    prefetch_inputs: Whether training takes up to two batches from input_fn's
      `tf.data` before the steps that need them, cuts them, and sends each part
      to the device that reads it, while earlier steps run.
    variables: "mirrored" gives each replica (`data` axis of the mesh) copies of
      the variables, which a training step keeps equal; "shared" lets all
      replicas read those of replica 0.
    optimizer_state: "replicated" lets each replica update all of its variables;
      with "sharded" each variable belongs to one replica, with its slots, which
      sends the others its new value (ZeRO-1).
    aggregation: Algorithm that sums gradients over replicas: one of
      `all_reduce`; "auto" for one that suits the devices; or "horovod" if each
      process holds one replica (see `replicas.horovod`).
    horovod_op: Reduction of the gradients and losses of processes by Horovod:
      their "mean", as is its default, or their "sum".
    bucket_bytes: Maximum size of dense gradients in one bucket, which is summed
      at once. A gradient of that size is summed alone. 0 sums each alone.
    compression: Compression of the gradients that replicas send: "none" sends
      all, "float16" and "bfloat16" all in half precision, "top_k" the largest
      entries. The residual of a step is added to the next step's gradient.
    top_k_fraction: Fraction of the entries that "top_k" sends.
    split: Variables that are split over the `model` axis of the mesh. "auto"
      finds the axes that send least under the memory limit, if there is such an
      axis. Or pairs of a regular expression for names of variables, and the
      split: a dimension, from 0; for a table of embeddings "mod" (row i is on
      device i % N), "div" (consecutive rows), "columns", or "whole" (each such
      table is on one device, so that all have as many bytes); or None (null in
      JSON), which keeps it whole: [["ffn/kernel", 1], ["table", "mod"]]. The
      first expression that is found in a name counts. Variables without a match
      are split only with their owner, as a slot is with its variable, and a
      bias with its layer. Without a `model` axis tables are split over the
      `data` axis, whose replicas have all the rest, as DLRM's trainers do
      (Naumov et al., 2019, arXiv:1906.00091).
    gathers: "allow" gathers a split tensor for an op that has no rule for it,
      and lists it; with "error" that is an error.
    plain_initial_bytes: Maximum size of a split variable that starts from
      slices of the plain model's initial value. Each shard of a larger one
      draws by itself, from a seed that follows from name and shard, so that no
      device makes a whole one; with 0 all do.
    export_shards: Whether a SavedModel keeps the split, for serving on as many
      devices. By default it is the plain model's, which any server loads.

  Raises:
    ValueError: If a field has the wrong type, the mesh cannot be made (see
      `Mesh.create`), a rule is malformed, the memory limit is not positive or
      given without automatic placement, a rule for an axis that does not
      exist, or a placement or costs cannot be read.
  """

  mesh: str = MESH("stage:1")
  devices: tuple[str, ...] = MESH(())
  placement: Any = MESH("auto")
  memory_limit: options.Bytes | None = MESH(None, 1)
  measured_costs: Any = MESH(None)
  machine: str | None = MESH(None)
  verify_placement: bool = MESH(True)

  num_micro_batches: int = PIPELINE(1, 1)
  schedule: str = PIPELINE("1f1b", choices=orders.NAMES)
  max_live_micro_batches: int | None = PIPELINE(None, 1)
  num_virtual_stages: int | None = PIPELINE(None, 1)
  gradient_accumulation_steps: int = PIPELINE(1, 1)
  recompute: str = PIPELINE("never", choices=("never", "except_last", "always"))
  weight_gradients: str = PIPELINE("auto", choices=("auto", "each", "batched"))
  transfer_dtype: str = PIPELINE(
    "float32", choices=("float32", *HALF_PRECISIONS)
  )

  batch_axis: tuple[BatchAxis, ...] = BATCH(())
  static_batch_size: int | None = BATCH(None, 1)
  per_example: tuple[str, ...] = BATCH(())
  fallback: str = BATCH("allow", choices=("allow", "error"))
  draws: str = BATCH("per_slice", choices=("per_slice", "whole"))
  batch_norm: str = BATCH("whole", choices=("whole", "per_micro_batch"))
  prefetch_inputs: bool = BATCH(False)

  variables: str = REPLICAS("mirrored", choices=("mirrored", "shared"))
  optimizer_state: str = REPLICAS(
    "replicated", choices=("replicated", "sharded")
  )
  aggregation: str = REPLICAS("auto", choices=("auto", *ALGORITHMS, HOROVOD))
  horovod_op: str = REPLICAS("mean", choices=("mean", "sum"))
  bucket_bytes: options.Bytes = REPLICAS(65536)
  compression: str = REPLICAS(
    "none", choices=("none", *HALF_PRECISIONS, "top_k")
  )
  top_k_fraction: float = REPLICAS(0.01)

  split: Any = MODEL_AXIS(split_rules.AUTO)
  gathers: str = MODEL_AXIS("allow", choices=("allow", "error"))
  plain_initial_bytes: options.Bytes = MODEL_AXIS(256 * 2**20)
  export_shards: bool = MODEL_AXIS(False)

  def __post_init__(self) -> None:
    options.check(self)
    axes = mesh_axes.parse_axes(self.mesh)
    for expression in self.per_example:
      name_rules.check_expression("per_example", expression, expression)
    schedule = self.create_schedule()
    self._check_auto()
    self._check_pipeline()
    self._check_replicas(axes.get("data", 1))
    self._check_placement(schedule.num_stages)
    batch_axis = name_rules.checked(
      "batch_axis",
      self.batch_axis,
      lambda axis: axis is None or type(axis) is int,
      "an axis",
      '("features/mask", None)',
    )
    object.__setattr__(self, "batch_axis", batch_axis)
    split = split_rules.checked_split(self.split, self.mesh, axes)
    object.__setattr__(self, "split", split)

  def axis_size(self, axis: str) -> int:
    """Returns the size of an axis; 1 if the mesh does not have it."""
    return mesh_axes.parse_axes(self.mesh).get(axis, 1)

  def create_schedule(self) -> schedule_lib.Schedule:
    """Returns the order of micro-batches that these options describe."""
    schedule = orders.make_schedule(
      self.schedule,
      self.axis_size("stage"),
      self.num_micro_batches,
      self.num_virtual_stages,
      self.max_live_micro_batches,
    )
    return orders.repeat(schedule, self.gradient_accumulation_steps)

  def _check_auto(self) -> None:
    """Raises if a choice is both the user's and the search's."""
    given = [
      x.name
      for x in dataclasses.fields(ShardingOptions)
      if x.name in _SEARCHED and getattr(self, x.name) != x.default
    ]
    if self.mesh == mesh_axes.AUTO and given:
      raise ValueError(
        f"mesh={self.mesh!r} finds {given[0]}, too, but "
        f"{given[0]}={getattr(self, given[0])!r} is given; leave it out, or "
        "give a mesh"
      )

  def _check_placement(self, num_stages: int) -> None:
    """Raises if the options of the placement do not fit together."""
    if placement_lib.is_strategy(self.placement):
      return
    if isinstance(self.placement, tuple | list):
      if not self.placement:
        raise ValueError(
          'placement=() has no rule; give at least one, or placement="auto"'
        )
      name_rules.checked(
        "placement",
        self.placement,
        lambda stage: type(stage) is int and 0 <= stage < num_stages,
        f"one of the mesh's stages, 0 to {num_stages - 1}",
        '("encoder/layer_[0-5]/", 0)',
      )
    unused = ["memory_limit"]
    if self.schedule != orders.AUTO:
      unused.append("measured_costs")
    for name in unused:
      if getattr(self, name) is not None:
        raise ValueError(
          f"{name} is for placement={placement_lib.names_of_strategies()} "
          "only, but another placement is given; leave one of them out"
        )

  def _check_pipeline(self) -> None:
    """Raises if the options of micro-batches do not fit together."""
    if self.recompute != "never" and self.schedule == "none":
      raise ValueError(
        f"recompute={self.recompute!r} needs a schedule, which says when to "
        'compute again, but schedule="none"; use schedule="1f1b"'
      )
    if self.recompute != "never" and self.weight_gradients == "batched":
      raise ValueError(
        "weight_gradients='batched' keeps what "
        f"recompute={self.recompute!r} computes again; use "
        'weight_gradients="auto", or recompute="never"'
      )
    if self.transfer_dtype != "float32" and self.axis_size("stage") == 1:
      raise ValueError(
        f"transfer_dtype={self.transfer_dtype!r} is for what stages send each "
        f"other, but mesh {self.mesh} has one stage; use a mesh such as "
        "stage:2, or compression for what replicas send"
      )

  def _check_replicas(self, num_replicas: int) -> None:
    """Raises if the options of replicas do not fit together."""
    if self.aggregation == HOROVOD and num_replicas > 1:
      raise ValueError(
        'aggregation="horovod" has one replica in each process, but mesh '
        f"{self.mesh} has {num_replicas}; leave the data axis out and start as "
        "many processes"
      )
    if not 0 < self.top_k_fraction <= 1:
      raise ValueError(
        f"top_k_fraction={self.top_k_fraction} is not a fraction; use a number "
        "above 0 and up to 1, such as 0.01"
      )
    if self.variables == "mirrored" and self.optimizer_state == "replicated":
      return
    if self.variables == "shared" and self.optimizer_state == "sharded":
      raise ValueError(
        'optimizer_state="sharded" lets replicas update a share of their '
        'mirrors each, but with variables="shared" only the first one has '
        'variables; use variables="mirrored", or optimizer_state="replicated"'
      )
    is_plain = self.aggregation in ("auto", "copy", HOROVOD)
    if not is_plain or self.compression != "none":
      raise ValueError(
        f"aggregation={self.aggregation!r}, compression={self.compression!r} "
        "is for replicas that all get the sum of gradients, but with "
        f"variables={self.variables!r} and "
        f"optimizer_state={self.optimizer_state!r} one gets it; use "
        'variables="mirrored" and optimizer_state="replicated", or leave these '
        "out"
      )
