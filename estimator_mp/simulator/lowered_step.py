"""The step of a graph that is sharded: what its ops cost, cell by cell.

    ops of a slice       the cell that they are part of, on their device
    ops of no slice      updates, and what is done once for a batch
    tensors sent         to the next stage, or over the model axis

Replica 0 stands for all. A device of the model axis waits for the slowest.
"""

import collections
import dataclasses
import re
from collections.abc import Mapping

from compat.private import graph_reads
from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.measured_costs import MeasuredCosts
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.machines.machine import Machine
from estimator_mp.pipeline import simulation
from estimator_mp.placement import costs, transfers
from estimator_mp.planning import sharding_plan
from estimator_mp.simulator import live_bytes
from estimator_mp.simulator import step as step_lib
from estimator_mp.simulator.step import SimulatedStep, StageWork, Step

import tensorflow as tf

# A device, and the pass that it is part of; None for what a step does once.
_Place = tuple[str, Phase | None]
# The scopes of what is made of a plain op.
_SCOPES = re.compile(r"^(slice_\d+|replica_\d+|part_\d+|products|recomputed)/")
# `simulator.sums` counts what is in there.
_SUMS = "aggregate/"


def simulate(
  graph: tf.Graph, config: ShardingConfig, machine: Machine
) -> SimulatedStep:
  """Returns the simulated training step of a graph that is sharded.

  Args:
    graph: A graph that a sharded model_fn has built to train.
    config: How it was sharded.
    machine: The machine. If the configuration has measured costs, they correct
      what it says of each op.
  """
  reading = _Reading(graph, config, machine)
  result = step_lib.simulate(reading.step())
  live = live_bytes.peaks(reading.order(result.timeline))
  devices = []
  for x in result.devices:
    names = reading.mesh.model_devices(stage=x.stages[0])
    most = max(live.get(name, 0) for name in names)
    devices.append(dataclasses.replace(x, live_bytes=most))
  return dataclasses.replace(result, devices=tuple(devices))


class _Reading:
  """The ops of a step, with their costs and their places."""

  def __init__(self, graph: tf.Graph, config: ShardingConfig, machine: Machine):
    plan = sharding_plan.get_plan(graph)
    assert plan is not None and plan.train_op is not None
    self._plan = plan
    self._config = config
    self._machine = machine
    self.mesh = config.create_mesh()
    schedule = config.create_schedule()
    if plan.pipeline is not None:
      schedule = plan.pipeline.schedule
    if not schedule.rows:  # It is simulated in some order.
      schedule = orders.make_schedule(
        "1f1b", schedule.num_devices, schedule.num_micro_batches
      )
    self._schedule = schedule
    self._ops = transfers.ops_of_step(
      graph.get_operation_by_name(plan.train_op)
    )
    known = costs.op_costs(self._ops, device=machine.device)
    self._known = known
    self._seconds = seconds_of_ops(known, machine, config.measured_costs)
    self._stages = {
      device: stage
      for stage in range(schedule.num_stages)
      for device in self.mesh.model_devices(stage=stage)
    }
    self._passes = self._find_passes()

  def step(self) -> Step:
    """Returns the step."""
    schedule = self._schedule
    work = [self._work(*x) for x in enumerate(self._variable_bytes())]
    return Step(
      tuple(work),
      schedule,
      self._machine,
      mesh_lib.Mesh.create(self._config.mesh, self._config.devices).axes,
      aggregation=self._config.aggregation,
      num_buckets=max(1, sum(map(len, self._plan.gradient_sums))),
    )

  def order(self, timeline: simulation.Timeline) -> list[tf.Operation]:
    """Returns the ops in an order in which they may run.

    Ops of a cell run when it does, and others as soon as they can.

    Args:
      timeline: When cells run.
    """
    pipeline = self._plan.pipeline
    of_replicas = () if pipeline is None else pipeline.cells
    cells = {op: cell for x in of_replicas for op, cell in x.items()}
    keys: dict[tf.Operation, tuple[float, int]] = {}
    for number, op in enumerate(self._ops):
      before = [keys[x] for x in traversal.sources(op) if x in keys]
      key = max(before, default=(0.0, number))
      if op.name in cells:
        key = max(timeline.starts[cells[op.name]], key[0]), number
      elif self._passes.get(op, (0, None))[1] is not None:
        key = key[0], number
      keys[op] = key
    numbers = {op: i for i, op in enumerate(self._ops)}
    return sorted(self._ops, key=lambda op: (*keys[op], numbers[op]))

  def _find_passes(self) -> dict[tf.Operation, tuple[int, Phase | None]]:
    """Returns the stage and the phase of each op of replica 0."""
    pipeline = self._plan.pipeline
    cells = {} if pipeline is None else pipeline.cells[0]
    others = set() if pipeline is None else set().union(*pipeline.cells[1:])
    gradients = [op for op in self._ops if graph_reads.is_of_gradient(op)]
    after = set(traversal.descendants(gradients, self._ops)).difference(
      gradients
    )
    passes: dict[tf.Operation, tuple[int, Phase | None]] = {}
    for op in self._ops:
      device = devices_lib.full_device(op.device)
      stage = None if device is None else self._stages.get(device)
      if op.name in cells:
        cell = cells[op.name]
        passes[op] = cell.stage, cell.phase
      elif stage is not None and op.name not in others:
        phase: Phase | None = None
        if pipeline is None and op not in after:
          is_back = graph_reads.is_of_gradient(op)
          phase = Phase.BACKWARD if is_back else Phase.FORWARD
        passes[op] = self._plan.placement.ops.get(op.name, stage), phase
    return passes

  def _work(self, stage: int, variable_bytes: tuple[int, int]) -> StageWork:
    """Returns the work of a stage, whose weights and slots have some bytes."""
    count = self._schedule.num_micro_batches
    here = {op for op, (place, _) in self._passes.items() if place == stage}
    busy = collections.defaultdict[_Place, float](float)
    for op in here:
      if not op.name.startswith(_SUMS):
        busy[op.device, self._passes[op][1]] += self._seconds[op]
    most = dict.fromkeys((*Phase, None), 0.0)
    for (_, phase), seconds in busy.items():
      most[phase] = max(most[phase], seconds)
    others = sum(busy.values()) - sum(most.values())
    model_bytes, sending = self._sent_over_model_axis(here)
    return StageWork(
      most[Phase.FORWARD] / count + sending[Phase.FORWARD],
      most[Phase.BACKWARD] / count + sending[Phase.BACKWARD],
      most[Phase.WEIGHT] / count,
      most[None],
      self._sent_to_next(stage) / count,
      weight_bytes=variable_bytes[0],
      slot_bytes=variable_bytes[1],
      gradient_bytes=sum(
        x.num_bytes or 0
        for of_round in self._plan.gradient_sums
        for x in of_round
        if self._stages.get(x.devices[0]) == stage
      ),
      flops=sum(self._known[op].flops for op in here) / count,
      model_bytes=model_bytes / count,
      others=others / count,
      of_one_core=sum(
        self._known[op].one_core * self._seconds[op] for op in here
      )
      / count,
    )

  def _sent_to_next(self, stage: int) -> float:
    """Returns the bytes of tensors of forward passes that leave a stage."""
    total = 0.0
    for op, (source, phase) in self._passes.items():
      if phase is Phase.FORWARD and source <= stage:
        for tensor in op.outputs:
          readers = [
            self._passes[x][0] for x in tensor.consumers() if x in self._passes
          ]
          if max(readers, default=0) > stage and tensor.dtype != tf.resource:
            total += shapes.tensor_bytes(tensor)
    return total

  def _sent_over_model_axis(
    self, ops: set[tf.Operation]
  ) -> tuple[float, dict[Phase, float]]:
    """Returns the bytes that devices of a stage send, and a slice's seconds."""
    seconds = dict.fromkeys(Phase, 0.0)
    size = self.mesh.axis_size("model")
    if size == 1:
      return 0.0, seconds
    link = self._machine.link(0, size - 1)
    sent = {
      (tensor.name, op.device): (tensor, self._passes[op][1])
      for op in ops
      for tensor in op.inputs
      if tensor.op in ops
      and tensor.op.device != op.device
      and tensor.dtype != tf.resource
    }
    total = 0.0
    for tensor, phase in sent.values():
      total += shapes.tensor_bytes(tensor)
      seconds[phase or Phase.BACKWARD] += (
        link.seconds(shapes.tensor_bytes(tensor))
        / self._schedule.num_micro_batches
      )
    return total / size, seconds

  def _variable_bytes(self) -> list[tuple[int, int]]:
    """Returns the bytes of each stage's fullest device: weights, and slots."""
    trained = {x.op.name for x in tf.compat.v1.trainable_variables()}
    held: dict[str, tuple[int, int]] = {}
    for op in filter(op_types.is_variable, self._ops):
      device = str(devices_lib.full_device(op.device))
      weight, slots = held.get(device, (0, 0))
      num_bytes = shapes.variable_bytes(op)
      if op.name in trained:
        held[device] = weight + num_bytes, slots
      else:
        held[device] = weight, slots + num_bytes
    fullest = [(0, 0)] * self._schedule.num_stages
    for device, stage in self._stages.items():
      fullest[stage] = max(fullest[stage], held.get(device, (0, 0)), key=sum)
    return fullest


def seconds_of_ops(
  known: Mapping[tf.Operation, costs.OpCost],
  machine: Machine,
  measured: MeasuredCosts | None = None,
) -> dict[tf.Operation, float]:
  """Returns the seconds of ops.

  Args:
    known: The costs of ops of one graph on a device of the machine.
    machine: What executes them.
    measured: The costs of the plain model: if an op is made of one of its ops,
      it takes as much of its time as of its work. All are scaled, so that the
      plain model's sum is the time of its step.
  """
  free = op_types.NO_WORK | op_types.VIEWS
  seconds = {
    op: 0.0 if op.type in free else cost.seconds for op, cost in known.items()
  }
  if measured is None:
    return seconds
  graph, times = next(iter(known)).graph, measured.seconds
  plain = costs.op_costs(
    [op for op in graph.get_operations() if op.name in times],
    device=machine.device,
  )
  ratios = {
    op.name: measured.scale * times[op.name] / cost.seconds
    for op, cost in plain.items()
    if cost.seconds
  }
  loops = {x.name for x in plain if x.type in op_types.FUNCTIONAL_LOOPS}
  for op, estimate in seconds.items():
    name = op.name
    while match := _SCOPES.match(name):
      name = name[match.end() :]
    if name not in ratios:  # Inlined ops are of the loop.
      name = next((x for x in loops if name.startswith(f"{x}/")), "")
    seconds[op] = estimate * ratios.get(name, 1.0)
  return seconds
