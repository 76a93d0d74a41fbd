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
    num_micro_batches: Number of slices that a training batch is cut into, so
      that stages work on different ones at the same time. Gradients and loss
      are those of the whole batch.
    schedule: Order in which each stage executes micro-batches: "1f1b", "gpipe",
      "interleaved", "zb1p", "zb2p", "zbv", "auto" for the fastest that is found
      for the model, or "none" for none; see `schedule.make_schedule`.
    max_live_micro_batches: Maximum number of micro-batches that a device holds
      at a time, from their forward pass until the gradients of their weights
      are computed, if the schedule is "auto". None for the number of devices in
      the pipeline, as the first one holds with "1f1b".
    num_virtual_stages: Stages of the model per device: 2 or more if the
      schedule is "interleaved", 2 if it is "zbv", otherwise 1. None for the
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
  """

  num_micro_batches: int = _option(
    1,
    "Number of slices of a batch that flow through the stages in training.",
    minimum=1,
  )
  schedule: str = _option(
    "1f1b",
    "Order in which a stage executes micro-batches.",
    choices=orders.NAMES,
  )
  max_live_micro_batches: int | None = _option(
    None,
    "For --schedule=auto: maximum number of micro-batches that a device holds"
    " at a time; by default the number of devices in the pipeline.",
    minimum=1,
  )
  num_virtual_stages: int | None = _option(
    None,
    "Stages of the model per device: 2 for --schedule=zbv, 2 or more for"
    " interleaved, 1 for others. Default: the minimum.",
    minimum=1,
  )
  gradient_accumulation_steps: int = _option(
    1,
    "Number of rounds, each of num_micro_batches, in which a batch flows"
    " through the stages before the weights are updated.",
    minimum=1,
  )
  recompute: str = _option(
    "never",
    "Whether the backward pass recomputes a stage's activations instead of"
    " keeping them; except_last: unless it follows the forward pass at once.",
    choices=("never", "except_last", "always"),
  )
  weight_gradients: str = _option(
    "auto",
    "Whether a weight's gradient is one product per micro-batch, or one per"
    " several micro-batches, which keeps more activations; auto: as many as"
    " take no more bytes than the gradient.",
    choices=("auto", "each", "batched"),
  )
  transfer_dtype: str = _option(
    "float32",
    "Data type in which stages send each other float32 activations and their"
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
