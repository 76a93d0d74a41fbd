"""Options of the pipeline: micro-batches, and their order on the stages."""

import dataclasses

from estimator_mp.config import options
from estimator_mp.config.mesh_options import MeshOptions
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib

HALF_PRECISIONS = ("float16", "bfloat16")
_option = options.Group("Sharding: micro-batches")


@dataclasses.dataclass(frozen=True)
class PipelineOptions(MeshOptions):
  """The slices of a batch that flow through the stages.

  Attributes:
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
    cells: What the graph has of each micro-batch but the first: "ops" is all
      of its ops; "functions" is a call of a function for each cell, so that a
      graph of hundreds of micro-batches is built, and starts, in seconds.
    transfer_dtype: In which precision stages send each other activations, and
      the gradients of these, in training: "float32" as they are; with
      "float16" or "bfloat16" what is float32 is cast before it is sent, and
      cast back. Inputs, variables, scalars and what is in a v1 cond or loop are
      sent as they are.
  """

  num_micro_batches: int = _option(
    1, "Slices of a batch that flow through the stages in training.", minimum=1
  )
  schedule: str = _option(
    "1f1b",
    "In which order a stage takes micro-batches.",
    choices=orders.NAMES,
  )
  max_live_micro_batches: int | None = _option(
    None,
    "How many micro-batches a device may hold at a time, for --schedule=auto;"
    " by default as many as the pipeline has devices.",
    minimum=1,
  )
  num_virtual_stages: int | None = _option(
    None,
    "Stages of the model on each device: 2 for --schedule=zbv, 2 or more for"
    " interleaved, and 1 for others. By default the least.",
    minimum=1,
  )
  gradient_accumulation_steps: int = _option(
    1,
    "In how many rounds, each of num_micro_batches, a batch goes through the"
    " stages before the weights change.",
    minimum=1,
  )
  recompute: str = _option(
    "never",
    "Whether the backward pass computes a stage's activations again instead of"
    " keeping them; except_last: unless it follows the forward pass at once.",
    choices=("never", "except_last", "always"),
  )
  weight_gradients: str = _option(
    "auto",
    "Whether each micro-batch multiplies its part of a weight's gradient, or"
    " several at once, which keeps more; auto: where that is no more than the"
    " gradient.",
    choices=("auto", "each", "batched"),
  )
  cells: str = _option(
    "ops",
    "What the graph has of each micro-batch but the first: its ops, or a call"
    " of a function for each cell, for graphs of hundreds of micro-batches.",
    choices=("ops", "functions"),
  )
  transfer_dtype: str = _option(
    "float32",
    "In which precision stages send each other float32 activations and their"
    " gradients in training.",
    choices=("float32", *HALF_PRECISIONS),
  )

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

  def check_pipeline(self) -> None:
    """Raises if what is said of micro-batches does not fit together."""
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
