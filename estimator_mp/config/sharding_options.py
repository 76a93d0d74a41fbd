"""What a user says of sharding: the options, and checks of the words alone.

Nothing of it needs TensorFlow, so that a wrong flag is told at once. What the
words mean on a machine, `ShardingConfig` checks.

A new option is a field of `ShardingOptions`, with a line of its docstring.
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from estimator_mp.config import options, split_rules
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.algorithms import ALGORITHMS
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib

AXES = ("data", "stage", "model")
# Each virtual device costs memory; no machine, and hardly a cluster, has more.
MAX_SIZE = 4096
_SPEC_HELP = "write axes as NAME:SIZE, such as stage:3 or data:2,stage:3"

# An expression for names, and the stage of what has such a name.
Rule: TypeAlias = tuple[str, int]
# An expression for names such as "features/x", and the axis of its examples;
# None for a tensor that belongs to the whole batch.
BatchAxis: TypeAlias = tuple[str, int | None]

VARIABLES = ("mirrored", "shared")
OPTIMIZER_STATES = ("replicated", "sharded")
# Between processes; `replicas.horovod` does it, and not the replicas here.
HOROVOD = "horovod"
HALF_PRECISIONS = ("float16", "bfloat16")
_LARGEST_ELEMENT_BYTES = 16  # complex128
_PLAIN_INITIAL_BYTES = 256 * 2**20
# TensorFlow counts the memory of logical GPUs in these.
_LEAST_GPU_BYTES = 2**20
_STRATEGIES = ". ".join(
  f"{name}: {strategy.summary}"
  for name, strategy in placement_lib.STRATEGIES.items()
)


@dataclasses.dataclass(frozen=True)
class ShardingOptions:
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
      it was saved to, which is read at once: the automatic placement, and the
      schedule "auto", then go by these seconds. None for estimates from FLOPs
      and bytes.
    verify_placement: Whether the first step of a session compares where ops
      really ran with where they were placed.
    num_micro_batches: Into how many slices `shard_model_fn` cuts a batch in
      training, so that stages work on different ones at the same time.
      Gradients and loss are those of the whole batch.
    schedule: In which order each stage takes micro-batches: "1f1b", "gpipe",
      "interleaved", "zb1p", "zb2p", "zbv", "auto" for the fastest that is found
      for the model, or "none" for none; see `schedule.make_schedule`.
    max_live_micro_batches: How many micro-batches a device may hold at a time,
      from their forward pass until the gradients of their weights are there, if
      the schedule is "auto". None for as many as there are devices in the
      pipeline, which the first one holds with "1f1b".
    num_virtual_stages: How many stages of the model each device has: 2 or more
      if the schedule is "interleaved", 2 if it is "zbv", otherwise 1. None for
      the least. The model is cut into that many times the stages of the mesh.
      Stage c of K devices is on device c % K; with "zbv" stages from K on go
      back, and c is on 2 * K - 1 - c.
    gradient_accumulation_steps: In how many rounds a batch goes through the
      stages, each of `num_micro_batches`, so that no round holds more than
      these. The weights change after the last one; a training step is still
      one batch.
    recompute: "always" keeps of each micro-batch only what a stage reads from
      others, and computes the rest again in the backward pass; "except_last"
      does not where the backward pass follows the forward pass at once (the
      last micro-batch of gpipe, the last stage of 1f1b); "never" keeps all.
    weight_gradients: Whether the gradient of a weight is a product of each
      micro-batch, "each", or of the rows of several at once, which makes fewer
      and larger products and sums, and keeps what is multiplied until then:
      "batched" is of all micro-batches of a round, "auto" of as many as have no
      more bytes than the gradient. Where the graph does not know the size of a
      batch, "auto" is "each", and so is all where activations are computed
      again.
    batch_norm: "whole" normalizes by the moments of the whole batch, as the
      plain model does: slices exchange them. With "per_micro_batch" each slice
      uses its own moments, so that no slice waits for another; moving averages
      move once, by the mean of the slices' moments. It holds for fused batch
      normalization, and for what reads both moments of `tf.nn.moments`.
    draws: "per_slice" lets each slice draw its part of random numbers, from
      seeds that follow from the op's and from the number of the slice; "whole"
      draws them once, as the plain run does, and cuts them.
    cells: What the graph has of each micro-batch but the first: "ops" is all
      of its ops; "functions" is a call of a function for each cell, so that a
      graph of hundreds of micro-batches is built, and starts, in seconds.
    variables: "mirrored" gives each replica (`data` axis of the mesh) copies of
      the variables, which a training step keeps equal; "shared" lets all
      replicas read those of replica 0.
    optimizer_state: "replicated" lets each replica update all of its variables;
      with "sharded" each variable belongs to one replica, with its slots, which
      sends the others its new value (ZeRO-1).
    aggregation: How gradients are summed over replicas: an algorithm of
      `all_reduce`; "auto" for one that suits the devices; or "horovod" if each
      process holds one replica (see `replicas.horovod`).
    horovod_op: What Horovod makes of the gradients, and of the losses, of
      processes: their "mean", as Horovod does by itself, or their "sum".
    bucket_bytes: The most bytes of dense gradients that are summed at once. One
      that is as large is summed alone. 0 sums each alone.
    chunk_bytes: A dense gradient of more bytes is summed in pieces of at most
      as many; None: in one.
    compression: What replicas send: "none" is everything, "float16" and
      "bfloat16" are everything in half precision, "top_k" the largest entries.
      What a step does not send is added to the next step's gradient.
    top_k_fraction: Which part of the entries "top_k" sends.
    transfer_dtype: In which precision stages send each other activations, and
      the gradients of these, in training: "float32" as they are; with
      "float16" or "bfloat16" what is float32 is cast before it is sent, and
      cast back. Inputs, variables, scalars and what is in a v1 cond or loop are
      sent as they are.
    sparse_as_dense: A sparse gradient is summed as a dense one if the rows of
      all replicas, as a part of the table's, are this many; None: never. It
      changes what clipping by a global norm sees of repeated rows.
    batch_axis: The axes of examples in features and labels that do not have
      them on axis 0: pairs of a regular expression for names such as
      "features/x", and an axis, or None for a tensor without examples.
    prefetch_inputs: Whether training takes up to two batches from input_fn's
      `tf.data` before the steps that need them, cuts them, and sends each part
      to the device that reads it, while the steps before are at work.
    per_example: Regular expressions for names of ops that compute each example
      by itself where no rule tells, as of Python functions: they are executed
      in parts of the batch, in training, evaluation and prediction. Their
      outputs have the examples on axis 0.
    fallback: "allow" lets an op of the model that no rule lets be executed in
      parts of the batch be executed once, on joined tensors, and lists it; with
      "error" that is an error.
    split: Which variables are split over the `model` axis of the mesh. "auto"
      finds the axes that send least under the memory limit, if there is such
      an axis. Or pairs of a regular expression for names of variables, and
      what it is split by: a dimension, from 0; for a table of embeddings
      "mod" (row i is on device i % N), "div" (consecutive rows), "columns",
      or "whole" (each such table is on one device, so that all have as many
      bytes); or None, which keeps it whole. The first expression that is found
      in a name counts. What none is found in is split only with what it
      belongs to, as a slot is with its variable, and a bias with its layer.
      Without a `model` axis tables are split over the `data` axis, whose
      replicas have all the rest, as DLRM's trainers do (Naumov et al., 2019,
      arXiv:1906.00091).
    gathers: "allow" lets an op that has no rule for split tensors read the
      gathered one, and lists it; with "error" that is an error.
    initial_values: "plain" starts a split variable from slices of the plain
      model's initial value, as long as that has at most `plain_initial_bytes`;
      "by_shard" draws each shard by itself, from a seed that follows from name
      and shard, so that no device makes a whole one.
    plain_initial_bytes: The most bytes of a variable that "plain" makes whole,
      when it is initialised. A larger one is drawn by shard.
    export_shards: Whether a SavedModel keeps the split, for serving on as many
      devices. Without it, it is the plain model's, which any server loads.
    logical_gpu_bytes: The bytes of memory of each logical GPU, if the mesh
      needs more GPUs than this machine has: each GPU is then several devices,
      as `run_config` lets sessions make them. They are for checks, and compute
      in turns. None: too few GPUs are an error.

  Raises:
    ValueError: If a field has the wrong type, the mesh cannot be made (see
      `Mesh.create`), a rule is malformed, the memory limit is not positive or
      given without automatic placement, a rule for an axis that does not
      exist, or a placement or costs cannot be read.
  """

  mesh: str = options.option(
    "stage:1",
    "Axes and sizes of the mesh: stage:3 spreads the model over three devices,"
    " stage:1 keeps it on one.",
  )
  devices: tuple[str, ...] = options.option(
    (),
    "The mesh's devices, such as gpu:0,gpu:1,gpu:2. Without it: the GPUs of"
    " this machine, or virtual CPU devices if it has none.",
  )
  # The name of a strategy, rules, a path or a Placement.
  placement: Any = options.option(  # noqa: RUF009 It returns a field.
    "auto",
    f"{_STRATEGIES}. Or rules as JSON, each an expression for"
    ' names and a stage: [["layer_[0-5]/", 0], [".*", 1]]. Or the path of a'
    " placement.json.",
  )
  memory_limit: int | None = options.option(
    None,
    "The bytes that --placement=auto may put on a device: weights with"
    " gradients and two slots, and activations.",
    minimum=1,
  )
  # A path or MeasuredCosts.
  measured_costs: Any = options.option(  # noqa: RUF009 It returns a field.
    None,
    "The path of a file of MeasuredCosts.save: the placement auto and the"
    " schedule auto go by these seconds then, and not by estimates.",
  )
  verify_placement: bool = options.option(
    True,
    "Compare the devices that the first step really used with the plan.",
  )
  num_micro_batches: int = options.option(
    1, "Slices of a batch that flow through the stages in training.", minimum=1
  )
  schedule: str = options.option(
    "1f1b",
    "In which order a stage takes micro-batches.",
    choices=orders.NAMES,
  )
  max_live_micro_batches: int | None = options.option(
    None,
    "How many micro-batches a device may hold at a time, for --schedule=auto;"
    " by default as many as the pipeline has devices.",
    minimum=1,
  )
  num_virtual_stages: int | None = options.option(
    None,
    "Stages of the model on each device: 2 for --schedule=zbv, 2 or more for"
    " interleaved, and 1 for others. By default the least.",
    minimum=1,
  )
  gradient_accumulation_steps: int = options.option(
    1,
    "In how many rounds, each of num_micro_batches, a batch goes through the"
    " stages before the weights change.",
    minimum=1,
  )
  recompute: str = options.option(
    "never",
    "Whether the backward pass computes a stage's activations again instead of"
    " keeping them; except_last: unless it follows the forward pass at once.",
    choices=("never", "except_last", "always"),
  )
  weight_gradients: str = options.option(
    "auto",
    "Whether each micro-batch multiplies its part of a weight's gradient, or"
    " several at once, which keeps more; auto: where that is no more than the"
    " gradient.",
    choices=("auto", "each", "batched"),
  )
  batch_norm: str = options.option(
    "whole",
    "Whether batch normalization uses the moments of the whole batch, or each"
    " slice of it its own.",
    choices=("whole", "per_micro_batch"),
  )
  draws: str = options.option(
    "per_slice",
    "Whether each slice of the batch draws its own random numbers, or they are"
    " drawn once, as the plain run draws them.",
    choices=("per_slice", "whole"),
  )
  cells: str = options.option(
    "ops",
    "What the graph has of each micro-batch but the first: its ops, or a call"
    " of a function for each cell, for graphs of hundreds of micro-batches.",
    choices=("ops", "functions"),
  )
  variables: str = options.option(
    "mirrored",
    "Whether each replica of the model has copies of the variables, or all read"
    " those of replica 0.",
    choices=VARIABLES,
  )
  optimizer_state: str = options.option(
    "replicated",
    "Whether each replica updates all of its variables, or each updates some of"
    " them, and sends them to the others.",
    choices=OPTIMIZER_STATES,
  )
  aggregation: str = options.option(
    "auto",
    "How gradients are summed over replicas.",
    choices=("auto", *ALGORITHMS, HOROVOD),
  )
  horovod_op: str = options.option(
    "mean",
    "Whether Horovod averages the gradients of processes, or sums them, for"
    " --aggregation=horovod.",
    choices=("mean", "sum"),
  )
  bucket_bytes: int = options.option(
    65536,
    "The most bytes of gradients that are summed over replicas at once; larger"
    " ones are summed alone.",
  )
  chunk_bytes: int | None = options.option(
    None,
    "The bytes of the pieces that larger gradients are summed in; without it"
    " they are summed whole.",
    minimum=1,
  )
  compression: str = options.option(
    "none",
    "What replicas send of gradients: all, all in half precision, or the"
    " largest entries. What is not sent is added to the next step's.",
    choices=("none", *HALF_PRECISIONS, "top_k"),
  )
  top_k_fraction: float = options.option(
    0.01, "Which part of the entries --compression=top_k sends."
  )
  transfer_dtype: str = options.option(
    "float32",
    "In which precision stages send each other float32 activations and their"
    " gradients in training.",
    choices=("float32", *HALF_PRECISIONS),
  )
  sparse_as_dense: float | None = options.option(
    None,
    "Sum a sparse gradient as a dense one from this many rows on, as a part of"
    " those of the table; without it never.",
  )
  batch_axis: tuple[BatchAxis, ...] = options.option(
    (),
    "Inputs whose examples are not on axis 0, as JSON, each an expression for"
    ' names and an axis, or null for none: [["features/mask", null]].',
  )
  prefetch_inputs: bool = options.option(
    False,
    "Cut the next batches, and send them to the devices that read them, while a"
    " training step is at work.",
  )
  per_example: tuple[str, ...] = options.option(
    (),
    "Names of ops, as regular expressions, that compute each example by itself"
    " where no rule tells, such as Python functions: they are executed in parts"
    " of the batch.",
  )
  fallback: str = options.option(
    "allow",
    "Whether an op that no rule lets be executed in parts of the batch may be"
    " executed once, on joined tensors.",
    choices=("allow", "error"),
  )
  # "auto" or rules.
  split: Any = options.option(  # noqa: RUF009 It returns a field.
    split_rules.AUTO,
    "Which variables are split over the model axis: auto, or rules as JSON,"
    " each an expression for names, and a dimension, mod, div, columns or whole"
    ' for tables, or null for never: [["ffn/kernel", 1], ["table", "mod"]].',
  )
  gathers: str = options.option(
    "allow",
    "Whether an op without a rule may read a split tensor gathered.",
    choices=("allow", "error"),
  )
  initial_values: str = options.option(
    "plain",
    "Whether split variables start from slices of the plain model's initial"
    " values, or each shard from its own.",
    choices=("plain", "by_shard"),
  )
  plain_initial_bytes: int = options.option(
    _PLAIN_INITIAL_BYTES,
    "The most bytes of a split variable that --initial_values=plain makes"
    " whole; larger ones are made by shard.",
  )
  export_shards: bool = options.option(
    False,
    "Keep the split in a SavedModel, for serving on several devices; without it"
    " it is the plain model's.",
  )
  logical_gpu_bytes: int | None = options.option(
    None,
    "The bytes of each logical GPU, if the mesh needs more GPUs than there are:"
    " each GPU is several devices then. Without it, that is an error.",
    minimum=_LEAST_GPU_BYTES,
  )

  def __post_init__(self) -> None:
    options.check(self)
    object.__setattr__(self, "devices", tuple(self.devices))
    batch_axis = options.checked_pairs(
      "batch_axis",
      self.batch_axis,
      lambda axis: axis is None or type(axis) is int,
      "an axis",
      '("features/mask", None)',
    )
    object.__setattr__(self, "batch_axis", batch_axis)
    per_example = options.checked_expressions("per_example", self.per_example)
    object.__setattr__(self, "per_example", per_example)
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
    schedule = self.create_schedule()
    self._check_replicas()
    self._check_transfers()
    split = split_rules.checked_split(self.split, self.mesh, self._axes())
    object.__setattr__(self, "split", split)
    if isinstance(self.placement, tuple | list):
      check_rules(self.placement, schedule.num_stages)
    if not placement_lib.is_strategy(self.placement):
      unused = ["memory_limit"]
      if self.schedule != orders.AUTO:
        unused.append("measured_costs")
      for name in unused:
        if getattr(self, name) is not None:
          raise ValueError(
            f"{name} is for placement={placement_lib.names_of_strategies()} "
            "only, but another placement is given; leave one of them out"
          )

  def _axes(self) -> Mapping[str, int]:
    return parse_axes(self.mesh)

  def _axis_size(self, axis: str) -> int:
    return self._axes().get(axis, 1)

  def create_schedule(self) -> schedule_lib.Schedule:
    """Returns the order of micro-batches that this configuration describes."""
    schedule = orders.make_schedule(
      self.schedule,
      self._axis_size("stage"),
      self.num_micro_batches,
      self.num_virtual_stages,
      self.max_live_micro_batches,
    )
    return orders.repeat(schedule, self.gradient_accumulation_steps)

  def _check_replicas(self) -> None:
    """Raises if what is said of replicas does not fit together."""
    num_replicas = self._axis_size("data")
    if self.aggregation == HOROVOD and num_replicas > 1:
      raise ValueError(
        'aggregation="horovod" has one replica in each process, but mesh '
        f"{self.mesh} has {num_replicas}; leave the data axis out and start as "
        "many processes"
      )
    least = max(self.bucket_bytes, _LARGEST_ELEMENT_BYTES)
    if self.chunk_bytes is not None and self.chunk_bytes < least:
      raise ValueError(
        f"chunk_bytes={self.chunk_bytes} is less than a bucket of "
        f"bucket_bytes={self.bucket_bytes}; use at least {least}"
      )
    if not 0 < self.top_k_fraction <= 1:
      raise ValueError(
        f"top_k_fraction={self.top_k_fraction} is no part of a gradient; "
        "use a number above 0 and up to 1, such as 0.01"
      )
    if self.variables == "mirrored" and self.optimizer_state == "replicated":
      return
    is_plain = self.aggregation in ("auto", "copy", HOROVOD)
    is_exact = self.compression == "none" and self.sparse_as_dense is None
    if not (is_plain and is_exact):
      raise ValueError(
        f"aggregation={self.aggregation!r}, compression={self.compression!r}, "
        f"sparse_as_dense={self.sparse_as_dense} is for replicas that all get "
        f"the sum of gradients, but with variables={self.variables!r} and "
        f"optimizer_state={self.optimizer_state!r} one gets it; use "
        'variables="mirrored" and optimizer_state="replicated", or leave these '
        "out"
      )

  def _check_transfers(self) -> None:
    """Raises if what stages send is to be changed, and there is one stage."""
    if self.transfer_dtype != "float32" and self._axis_size("stage") == 1:
      raise ValueError(
        f"transfer_dtype={self.transfer_dtype!r} is for what stages send each "
        f"other, but mesh {self.mesh} has one stage; use a mesh such as "
        "stage:2, or compression for what replicas send"
      )


def parse_axes(spec: str) -> Mapping[str, int]:
  """Parses the text of a mesh.

  Args:
    spec: Comma-separated `axis:size` pairs, such as "data:2,stage:3".

  Returns:
    The size of each axis, in the order of the text.

  Raises:
    ValueError: If the text is malformed, names an unknown axis or the same
      axis twice, or has a size below 1, or the product of the sizes is above
      `MAX_SIZE`.
  """
  axes: dict[str, int] = {}
  for part in spec.split(","):
    name, colon, size = (piece.strip() for piece in part.partition(":"))
    if not name or not colon or not size.removeprefix("-").isdecimal():
      raise ValueError(f"mesh {spec!r} is malformed at {part!r}; {_SPEC_HELP}")
    if name not in AXES:
      raise ValueError(
        f"mesh {spec!r} has an unknown axis {name!r}; the axes are "
        + ", ".join(AXES)
      )
    if name in axes:
      raise ValueError(
        f"mesh {spec!r} names axis {name!r} twice; name each axis once"
      )
    if int(size) < 1:
      raise ValueError(
        f"mesh {spec!r} gives axis {name!r} the size {size}; "
        "a size is at least 1"
      )
    axes[name] = int(size)
  positions = math.prod(axes.values())
  if positions > MAX_SIZE:
    raise ValueError(
      f"mesh {spec!r} has {positions} positions, more than the {MAX_SIZE} that "
      "a mesh may have; use a smaller one"
    )
  return MappingProxyType(axes)


def check_rules(rules: Sequence[Rule], num_stages: int) -> None:
  """Raises if a rule can be seen to be wrong without a graph.

  Args:
    rules: Pairs of a regular expression and a stage.
    num_stages: The size of the mesh's stage axis.

  Raises:
    ValueError: If there is no rule, a rule is no such pair, an expression is
      malformed, or a stage is outside of the mesh.
  """
  if not rules:
    raise ValueError(
      'placement=() has no rule; give at least one, or placement="auto"'
    )
  for rule in rules:
    if not isinstance(rule, tuple | list) or len(rule) != 2:
      raise ValueError(
        f"placement rule {rule!r} is malformed; write (expression, stage), "
        'such as ("encoder/layer_[0-5]/", 0)'
      )
    expression, stage = rule
    try:
      re.compile(expression)
    except (re.error, TypeError) as error:
      raise ValueError(
        f"placement rule {rule!r} has a malformed expression ({error}); use "
        "the syntax of Python's re module"
      ) from error
    if type(stage) is not int or not 0 <= stage < num_stages:
      raise ValueError(
        f"placement rule {rule!r} names stage {stage!r}, which is outside of "
        f"the mesh; its stages are 0 to {num_stages - 1}"
      )
