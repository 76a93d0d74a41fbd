"""Benchmark: steps per second of an MLP on two stages, beside what bounds them.

All of these train the same weights by the same batch, in turns in one process,
and have the same losses:

- one device with one thread: no op runs beside another;
- one device with a thread for each core, where a backward pass already has two
  products to do at a time, so that this is no single device;
- micro-batches on two devices, written by hand, in no order;
- this project, with each of the schedules.

The bound of each is the limit of the machine: the floating-point operations of
a step's matrix products at the rate of the same products, measured in the same
turns, on all cores at once; on one core for what has one thread. The bubble of
a schedule is no bound here: CPU devices share their cores, so that the only
stage that works, works on both.

  ./bazelw run //benchmarks:pipeline_throughput
  ./bazelw run //benchmarks:pipeline_throughput -- --micro_batches=16

`//benchmarks:peers` has other systems in turns with these.
"""

import contextlib
import functools
import os
import statistics
from collections.abc import Callable

from benchmarks import figures, mlp_sides, products, turns
from benchmarks import mlp as mlp_lib

import tensorflow as tf
from absl import app, flags

LAYERS = flags.DEFINE_integer("layers", 8, "Layers.", lower_bound=1)
WIDTH = flags.DEFINE_integer("width", 1024, "Units of each layer.")
BATCH = flags.DEFINE_integer("batch", 512, "Examples of a step.")
MICRO_BATCHES = flags.DEFINE_multi_integer(
  "micro_batches", [4, 8], "Into how many the batch is cut.", lower_bound=1
)
STAGES = flags.DEFINE_integer("stages", 2, "Stages.", lower_bound=1)
SCHEDULES = flags.DEFINE_list(
  "schedules", ["1f1b", "zb1p"], "Schedules to measure."
)
DEVICES = flags.DEFINE_list(
  "devices", [], "A device for each stage, such as gpu:0,gpu:1; CPUs without."
)
ROUNDS = flags.DEFINE_integer("rounds", 15, "Turns of each.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 3, "Steps of a turn.", lower_bound=1)
THREADS = flags.DEFINE_integer(
  "threads", 0, "Ops that may run at a time; 0 for what run_config says."
)
_WARM_UP_STEPS = 3
# Of those schedules that have several stages on a device.
_VIRTUAL_STAGES = {"interleaved": 2, "zbv": 2}
ALONE = "one device, one thread"
LIMIT, LIMIT_ALONE = "limit", "limit of one core"


class Sides:
  """Ways to make steps, which take turns.

  Attributes:
    mlp: What they train.
    devices: What the stages are on.
    seconds: For each the seconds of a step in each round, by name; `LIMIT` has
      those that its products take on all cores, `LIMIT_ALONE` on one.
  """

  def __init__(self, stack: contextlib.ExitStack, mlp: mlp_lib.Mlp):
    """Makes the sides that need no other system.

    Args:
      stack: What ends them.
      mlp: What they train.
    """
    self.mlp = mlp
    self.seconds: dict[str, list[float]] = {}
    self._losses: dict[str, list[float]] = {}
    self._runs: dict[str, Callable[[int], float]] = {}
    self._stack = stack
    # Each device is as fast as it is; CPU devices share the cores.
    places = DEVICES.value
    num_places = len(places) or len(os.sched_getaffinity(0))
    self.devices = places or [f"/cpu:{i}" for i in range(STAGES.value)]
    self.add(ALONE, mlp_sides.plain(mlp, 1, self.devices[0]))
    if not places:
      name = f"one device, {num_places} threads"
      self.add(name, mlp_sides.plain(mlp, num_places, self.devices[0]))
    self._limits = [
      products.Products(mlp, MICRO_BATCHES.value, count, places[:count])
      for count in (num_places, 1)
    ]
    for limit in self._limits:
      stack.callback(limit.close)

  def add_stages(self) -> None:
    """Adds micro-batches by hand, and those of each schedule."""
    for count in MICRO_BATCHES.value:
      self.add(
        f"by hand, M={count}",
        mlp_sides.by_hand(self.mlp, self.devices, count, THREADS.value),
      )
      for schedule in SCHEDULES.value:
        self.add(
          f"{schedule}, M={count}",
          mlp_sides.sharded(
            self.mlp,
            f"stage:{len(self.devices)}",
            THREADS.value,
            devices=self.devices,
            num_micro_batches=count,
            schedule=schedule,
            num_virtual_stages=_VIRTUAL_STAGES.get(schedule, 1),
          ),
        )

  def add(self, name, context) -> None:
    """Adds a side.

    Args:
      name: What it is called.
      context: A context with a `graphs.Step`.
    """
    step = self._stack.enter_context(context)
    self.add_run(name, step.seconds, step.losses)

  def add_run(self, name, run, losses) -> None:
    """Adds a side that is called.

    Args:
      name: What it is called.
      run: Makes so many steps, and returns their seconds.
      losses: The list that gets the loss of each.
    """
    run(_WARM_UP_STEPS)
    self._runs[name] = run
    self._losses[name] = losses

  def measure(self) -> None:
    """Lets all take turns.

    Raises:
      RuntimeError: If they do not compute the same.
    """
    measures = [
      *(functools.partial(_turn, run) for run in self._runs.values()),
      *(limit.seconds for limit in self._limits),
    ]
    names = [*self._runs, LIMIT, LIMIT_ALONE]
    found = turns.in_turns(measures, ROUNDS.value)
    self.seconds = dict(zip(names, found, strict=True))
    for name, losses in self._losses.items():
      # Later losses are of weights that were rounded in another way.
      mlp_lib.check_losses(name, losses[:_WARM_UP_STEPS], self._losses[ALONE])

  def speeds(self) -> list[figures.Figure]:
    """Returns the steps per second of each beside its bound."""
    return [
      figures.Figure(
        name,
        "steps/s",
        tuple(1 / seconds for seconds in self.seconds[name]),
        tuple(1 / seconds for seconds in self.seconds[_limit_of(name)]),
      )
      for name in self._runs
    ]

  def ratio(self, first: str, second: str) -> figures.Figure:
    """Returns the ratio of the seconds of two sides, by their names.

    Its bound is what it would be if the first side reached its limit.
    """
    limit = self.seconds[_limit_of(first)]
    return figures.ratio(
      f"time of {first} / {second}",
      self.seconds[first],
      self.seconds[second],
      bound=figures.ratio("", limit, self.seconds[second]).rounds,
      is_lower_better=True,
    )


def _turn(run: Callable[[int], float]) -> float:
  """Returns the seconds of a step, of a turn's."""
  steps: int = STEPS.value
  return run(steps) / steps


def _limit_of(name: str) -> str:
  """Returns which limit a side has."""
  return LIMIT_ALONE if name == ALONE else LIMIT


def check_flags() -> None:
  """Raises `app.UsageError` where flags do not fit each other."""
  for count in MICRO_BATCHES.value:
    if BATCH.value % count:
      raise app.UsageError(
        f"--micro_batches={count} does not divide --batch={BATCH.value}"
      )
  for schedule in SCHEDULES.value:
    stages = STAGES.value * _VIRTUAL_STAGES.get(schedule, 1)
    if LAYERS.value % stages:
      raise app.UsageError(
        f"--schedules={schedule} has {stages} stages, which do not divide "
        f"--layers={LAYERS.value}"
      )
  if DEVICES.value and len(DEVICES.value) != STAGES.value:
    raise app.UsageError(
      f"--devices has {len(DEVICES.value)} devices for "
      f"--stages={STAGES.value}; name one for each stage"
    )


def limit_text(sides: Sides) -> str:
  """Returns what the limit was, for people."""
  seconds = statistics.median(sides.seconds[LIMIT])
  flops = sum(sides.mlp.product_flops().values())
  return (
    f"limit: {1000 * seconds:.1f} ms, {flops / 1e9:.1f} GFLOP at "
    f"{flops / seconds / 1e9:.0f} GFLOP/s"
  )


def main(argv):
  """Measures and prints steps per second, and ratios."""
  del argv
  check_flags()
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  mlp = mlp_lib.Mlp(LAYERS.value, WIDTH.value, BATCH.value)
  with contextlib.ExitStack() as stack:
    sides = Sides(stack, mlp)
    sides.add_stages()
    sides.measure()
  found = sides.speeds()
  for count in MICRO_BATCHES.value:
    for schedule in SCHEDULES.value:
      for other in (f"by hand, M={count}", ALONE):
        found.append(sides.ratio(f"{schedule}, M={count}", other))
  print(limit_text(sides))
  figures.show(found)
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
