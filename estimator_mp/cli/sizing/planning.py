"""Planning: the largest model of a family for a number of stages."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from estimator_mp import sharding
from estimator_mp.cli.sizing.capacity_flags import FAMILIES, CapacityOptions
from estimator_mp.cli.sizing.planned_memory import DeviceMemory, planned_memory
from estimator_mp.config import options as options_lib
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.schedules import orders
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import traversal
from estimator_mp.plan import sharding_plan
from model_fns.transformers.moe import moe
from model_fns.transformers.transformer import transformer

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]
ModelFn: TypeAlias = Callable[..., tf.estimator.EstimatorSpec]
_SEED = 1


@dataclasses.dataclass(frozen=True)
class Model:
  """A model of a family.

  Attributes:
    family: The name of the family.
    sizes: All its sizes.
    free_size: The size that is free.
  """

  family: str
  sizes: Mapping[str, int]
  free_size: int

  def empty(self) -> "Model":
    """Returns a model of the same ops that has next to no tensors."""
    sizes = {**self.sizes, **FAMILIES[self.family].empty}
    return dataclasses.replace(self, sizes=sizes)

  def examples(self, batch_size: int) -> tuple[Arrays, npt.NDArray[np.generic]]:
    """Returns sequences of random tokens, and each token's successor.

    Args:
      batch_size: How many examples it has.
    """
    shape = [batch_size, self.sizes["sequence_length"] + 1]
    tokens = np.random.RandomState(_SEED).randint(
      self.sizes["vocabulary_size"], size=shape, dtype=np.int32
    )
    return {"tokens": tokens[:, :-1]}, tokens[:, 1:]

  def build(
    self, config: ShardingConfig, batch_size: int, host: str = ""
  ) -> tuple[tf.estimator.EstimatorSpec, list[tf.Tensor]]:
    """Builds the graph that trains it, as the default one.

    Args:
      config: How it is sharded.
      batch_size: How many examples it is fed.
      host: The device that is fed them.

    Returns:
      Its spec, and the placeholders of what `examples` returns, flat.
    """
    tf.compat.v1.train.create_global_step()
    with tf.device(host):
      features, labels = tf.nest.map_structure(
        lambda x: tf.compat.v1.placeholder(x.dtype, x.shape),
        self.examples(batch_size),
      )
    model_fn = _MAKERS[self.family](self.free_size, **self.sizes)
    spec = sharding.shard_model_fn(model_fn, config)(
      features, labels, tf.estimator.ModeKeys.TRAIN
    )
    return spec, tf.nest.flatten((features, labels))


_MAKERS: Mapping[str, Callable[..., ModelFn]] = {
  "transformer": transformer,
  "moe": moe,
}


@dataclasses.dataclass(frozen=True)
class Measurement:
  """The result of training a planned model.

  Attributes:
    losses: The loss of each step; none if the model did not fit.
    peaks: The most bytes of real memory that each device's process held, beyond
      what it holds for the same graph with next to no tensors.
  """

  losses: tuple[float, ...]
  peaks: tuple[int, ...]

  @property
  def fits(self) -> bool:
    """Whether the model has trained."""
    return bool(self.losses)


@dataclasses.dataclass(frozen=True)
class Plan:
  """A model on a mesh, and what it needs there.

  Attributes:
    num_stages: The stages of the mesh.
    model: The model.
    parameters: Its trained parameters, counted once for all replicas.
    placement: Where its parts are.
    devices: The needs of each device, replica after replica, stage after stage.
    measured: The result of its training; None if it was not trained.
  """

  num_stages: int
  model: Model
  parameters: int
  placement: placement_lib.Placement
  devices: tuple[DeviceMemory, ...]
  measured: Measurement | None = None

  @property
  def peak(self) -> int:
    """The bytes that the fullest device needs."""
    return max(device.total for device in self.devices)

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON, but for the placement."""
    return {
      "stages": self.num_stages,
      "family": self.model.family,
      "sizes": dict(self.model.sizes),
      "free_size": self.model.free_size,
      "parameters": self.parameters,
      "devices": options_lib.to_plain(self.devices),
      "measured": options_lib.to_plain(self.measured),
    }


def config_of(
  options: CapacityOptions, num_stages: int, **others: Any
) -> ShardingConfig:
  """Returns how a model is sharded; each device is a process of its own.

  Args:
    options: The options of the command.
    num_stages: The stages of the mesh.
    **others: Other fields of the configuration.
  """
  count = options.replicas * num_stages
  replicas = f"data:{options.replicas}," if options.replicas > 1 else ""
  return ShardingConfig(
    f"{replicas}stage:{num_stages}",
    tuple(f"/job:device/task:{i}/cpu:0" for i in range(count)),
    optimizer_state=options.sharding.optimizer_state,
    verify_placement=False,
    **others,
  )


def plan_model(
  options: CapacityOptions, num_stages: int, free_size: int
) -> Plan:
  """Returns what a model of the family needs.

  Args:
    options: The options of the command.
    num_stages: The stages of the mesh.
    free_size: The size of the model that is free.

  Raises:
    ValueError: If its sizes do not fit together, or it cannot be placed.
  """
  model = Model(options.model, options.all_sizes, free_size)
  config = config_of(options, num_stages)
  slices = options.sharding.num_micro_batches
  with tf.Graph().as_default() as graph:
    spec, _ = model.build(
      config, options.batch_size // slices * options.replicas
    )
    step = traversal.ops_run_with(spec.train_op, spec.loss)
    placement = sharding_plan.get_placement(graph)
    return Plan(
      num_stages,
      model,
      sum(stage.parameters for stage in placement.stages),
      placement,
      planned_memory(
        [op for op in graph.get_operations() if op in step],
        spec.loss.op,
        config.create_mesh(),
        placement,
        orders.make_schedule(options.sharding.schedule, num_stages, slices),
        options.sharding.recompute,
      ),
    )


def largest(fits: Callable[[int], bool], guess: int = 1) -> int:
  """Returns the largest number that fits.

  From the guess it goes up, or down, in steps that double, and halves what is
  left between what fits and what does not: so a good guess takes two trials.

  Args:
    fits: Whether a number, at least 1, fits; if it does, all below fit, too.
    guess: Where to begin, at least 1.

  Returns:
    The number; 0 if not even 1 fits.
  """
  step = 1
  if fits(guess):
    low = guess
    while fits(low + step):
      low, step = low + step, 2 * step
    high = low + step
  else:
    high = guess
    while (trial := max(high - step, 0)) and not fits(trial):
      high, step = trial, 2 * step
    low = trial
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if fits(middle) else (low, middle)
  return low


def largest_plan(
  options: CapacityOptions, num_stages: int, guess: int
) -> Plan | None:
  """Returns the plan of the largest model that fits; None if none does.

  Args:
    options: The options of the command.
    num_stages: The stages of the mesh.
    guess: A size to begin with.

  Raises:
    ValueError: As for `plan_model`.
  """
  plans: dict[int, Plan] = {}

  def fits(free_size: int) -> bool:
    plans[free_size] = plan_model(options, num_stages, free_size)
    return bool(plans[free_size].peak <= options.memory_per_device)

  return plans.get(largest(fits, guess))
