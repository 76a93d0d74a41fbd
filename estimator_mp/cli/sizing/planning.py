"""Planning: the largest model of a family for a number of stages."""

import dataclasses

from estimator_mp import sharding
from estimator_mp.cli.sizing import families, largest
from estimator_mp.cli.sizing.capacity_flags import CapacityOptions
from estimator_mp.cli.sizing.planned_memory import DeviceMemory, planned_memory
from estimator_mp.comparison import inspect_model
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.schedules import orders
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import traversal
from estimator_mp.plan import sharding_plan

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Plan:
  """A model on a mesh, and what it needs there.

  Attributes:
    num_stages: The stages of the mesh.
    model: The model.
    parameters: Its trained parameters, counted once for all replicas.
    placement: Where its parts are.
    devices: What each device needs, replica after replica, stage after stage.
  """

  num_stages: int
  model: families.Model
  parameters: int
  placement: placement_lib.Placement
  devices: tuple[DeviceMemory, ...]

  @property
  def peak(self) -> int:
    """The bytes that the fullest device needs."""
    return max(device.total for device in self.devices)


def devices_of(options: CapacityOptions, num_stages: int) -> tuple[str, ...]:
  """Returns the devices of a mesh, each of which is a process of its own.

  Args:
    options: What is to be planned.
    num_stages: The stages of the mesh.
  """
  count = options.replicas * num_stages
  return tuple(f"/job:device/task:{i}/cpu:0" for i in range(count))


def mesh_of(options: CapacityOptions, num_stages: int) -> str:
  """Returns the text of a mesh.

  Args:
    options: What is to be planned.
    num_stages: The stages of the mesh.
  """
  replicas = f"data:{options.replicas}," if options.replicas > 1 else ""
  return f"{replicas}stage:{num_stages}"


def plan_model(
  options: CapacityOptions, num_stages: int, free_size: int
) -> Plan:
  """Returns what a model of the family needs.

  Args:
    options: What is to be planned.
    num_stages: The stages of the mesh.
    free_size: The size of the model that is free.

  Raises:
    ValueError: If its sizes do not fit together, or it cannot be placed.
  """
  model = families.Model(options.model, options.all_sizes, free_size)
  config = ShardingConfig(
    mesh_of(options, num_stages),
    devices_of(options, num_stages),
    optimizer_state=options.sharding.optimizer_state,
    verify_placement=False,
  )
  slices = options.sharding.num_micro_batches
  features, labels = model.specs(
    options.batch_size // slices * options.replicas
  )
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    spec = sharding.shard_model_fn(model.model_fn(), config)(
      inspect_model.placeholders(features),
      inspect_model.placeholders(labels),
      tf.estimator.ModeKeys.TRAIN,
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


def largest_plan(
  options: CapacityOptions, num_stages: int, guess: int
) -> Plan | None:
  """Returns the plan of the largest model that fits; None if none does.

  Args:
    options: What is to be planned.
    num_stages: The stages of the mesh.
    guess: A size to begin with.

  Raises:
    ValueError: As for `plan_model`.
  """
  plans: dict[int, Plan] = {}

  def fits(free_size: int) -> bool:
    plans[free_size] = plan_model(options, num_stages, free_size)
    return plans[free_size].peak <= options.num_bytes

  return plans.get(largest.largest(fits, guess))
