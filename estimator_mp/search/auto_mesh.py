"""The best mesh for a model_fn: its work, read off graphs that nobody runs.

The plain graph gives the work of all cuts; one more, split over two devices,
that of the model axis. Both are thrown away.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp import driver
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.config.split_rules import AUTO
from estimator_mp.graph import shapes
from estimator_mp.machines.machine import Machine
from estimator_mp.search import ranking
from estimator_mp.simulator.step import StageWork
from estimator_mp.simulator.workload import Cut, Workload

import tensorflow as tf

# The model axis for which a graph is split; others follow from it.
_PARTS = 2
# With slices, the plan says which tensors grow with the batch.
_SLICES = 2

# Makes arguments in the default graph, of an open batch or of a known size, and
# calls model_fn with them.
Arguments = Callable[[bool], Mapping[str, Any]]
Build = Callable[[Mapping[str, Any]], tf.estimator.EstimatorSpec]


class Model:
  """A model_fn, as far as the search asks."""

  def __init__(
    self,
    build: Build,
    arguments: Arguments,
    config: ShardingConfig,
    machine: Machine,
    batch_size: int = shapes.NOMINAL_BATCH,
  ):
    """Reads the graphs.

    Args:
      build: Calls model_fn with its arguments.
      arguments: Makes the arguments; a model_fn that cannot take an open batch
        gets one of known size.
      config: Options that all meshes have; its own mesh is of one device.
      machine: The machine.
      batch_size: The examples of a batch.
    """
    self._build = build
    self._batch_size = batch_size
    self._is_open = config.static_batch_size is None
    self._nominal = batch_size / shapes.NOMINAL_BATCH if self._is_open else 1.0
    self._arguments = arguments
    # No cut is refused: the ranking leaves out what is too large.
    self._config = dataclasses.replace(
      config, memory_limit=None, num_micro_batches=_SLICES
    )
    self._memory_limit = config.memory_limit
    self._machine = machine
    self._ratios: Mapping[str, float] = {}
    self._cuts: dict[int, Cut | None] = {}
    try:
      self._graph, self._planned, self._plain = self._read(1)
    except (TypeError, ValueError):  # It needs the size of the batch.
      self._is_open, self._nominal = False, 1.0
      try:
        self._graph, self._planned, self._plain = self._read(1)
      except TypeError as error:
        raise ValueError(
          'mesh="auto" calls model_fn with placeholders, but it does not take '
          f"them: {error}; give a mesh"
        ) from error

  def _read(self, parts: int) -> Any:
    """Returns a graph on a model axis, its plan and its work."""
    mesh = "stage:1" if parts == 1 else f"model:{parts}"
    config = self._on(mesh, parts)
    with tf.Graph().as_default() as graph:
      tf.compat.v1.train.create_global_step()
      sharder = driver.Driver(config, config.create_mesh())
      arguments = self._arguments(self._is_open)
      inputs = sharder.inputs(arguments)
      with sharder.variables():
        _, planned = sharder.partition(lambda: self._build(inputs))
      workload = Workload(
        planned.step,
        planned.batch,
        self._machine,
        planned.plan.positions,
        parts,
      )
      measured = self._config.measured_costs
      if measured is not None and parts == 1:
        self._ratios = workload.ratios(measured, self._nominal)
      workload.correct(self._ratios)
      return graph, planned, workload

  def _on(self, mesh: str, size: int) -> ShardingConfig:
    """Returns the configuration on a mesh of devices that need not exist."""
    devices = tuple(f"/cpu:{i}" for i in range(size))
    return dataclasses.replace(self._config, mesh=mesh, devices=devices)

  @functools.cached_property
  def _in_parts(self) -> Workload | None:
    """The work of the model on a model axis; None if it cannot be split."""
    try:
      _, planned, workload = self._read(_PARTS)
    except ValueError:  # The other axes may do.
      return None
    has_parts = planned.plan.splits and planned.plan.splits.variables
    return workload if has_parts else None

  def _cut(self, num_stages: int) -> Cut | None:
    """Returns the cut into stages; None if there are too few layers."""
    config = self._on(f"stage:{num_stages}", num_stages)
    with self._graph.as_default():
      try:
        cut: Cut = self._planned.cut_on(config, config.create_mesh())
        return cut
      except ValueError:
        return None

  def work(
    self, num_stages: int, fraction: float, num_parts: int
  ) -> Sequence[StageWork] | None:
    """Returns the work of stages; see `ranking.WorkOf`.

    Args:
      num_stages: How many stages.
      fraction: The part of a nominal batch that a slice has.
      num_parts: The size of the model axis.
    """
    if num_stages not in self._cuts:
      self._cuts[num_stages] = self._cut(num_stages)
    cut = self._cuts[num_stages]
    workload = self._plain if num_parts == 1 else self._in_parts
    if cut is None or workload is None:
      return None
    return workload.work(cut, fraction, num_parts)

  def rank(self, num_devices: int) -> ranking.Ranking:
    """Returns the fastest configurations.

    Args:
      num_devices: How many devices there are.

    Raises:
      ValueError: If none fits the memory of a device.
    """

    @functools.cache
    def work_of(
      num_stages: int, fraction: float, num_parts: int
    ) -> Sequence[StageWork] | None:
      return self.work(num_stages, self._nominal * fraction, num_parts)

    # Rules of the user's are for a model axis.
    tables = self._plain.tables if self._config.split == AUTO else ()
    return ranking.rank(
      work_of,
      self._batch_size,
      num_devices,
      self._machine,
      self._memory_limit,
      [(f"^{re.escape(name)}$", "div") for name in tables],
    )
