"""How near the simulator of `estimator-mp plan` is to steps that run.

Eight models are trained on six meshes of virtual devices. Before, the machine
is measured as by `estimator-mp measure`, and the ops of each plain model by
`estimator_mp.measure_costs`; its step takes turns with the others. No figure is
fitted to a step that is predicted. A line has
the step time that was measured, and predicted; and the most bytes that were
alive on a device besides variables, in a trace, and predicted.

  ./bazelw run //benchmarks:plan_accuracy
  ./bazelw run //benchmarks:plan_accuracy -- --models='mlp|dlrm'
"""

import contextlib
import dataclasses
import itertools
import re
import statistics
from collections.abc import Iterator

import estimator_mp
from benchmarks import figures, graphs, planned_models, turns
from estimator_mp.machines import measure
from estimator_mp.simulator import lowered_step

import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1
_MODELS = flags.DEFINE_string("models", "", "An expression for names; all.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Turns of each mesh.", 1)
_SECONDS = flags.DEFINE_float("seconds", 0.15, "Least seconds of a turn.")
_MEASURED = flags.DEFINE_bool("measured", True, "Use measure_costs.")
MESHES = (
  ("stage:2", 1),
  ("stage:2", 4),
  ("data:2", 1),
  ("data:2,stage:2", 2),
  ("model:2", 1),
  ("stage:2,model:2", 2),
)
_ROW = "{:<10} {:<16} {:>2} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}"


@dataclasses.dataclass(frozen=True)
class Row:
  """A model on a mesh: seconds and bytes, measured and predicted."""

  model: str
  mesh: str
  slices: int
  seconds: float
  predicted_seconds: float
  num_bytes: int
  predicted_bytes: float

  def __str__(self) -> str:
    return _ROW.format(
      self.model,
      self.mesh,
      self.slices,
      f"{1e3 * self.seconds:.2f} ms",
      f"{1e3 * self.predicted_seconds:.2f} ms",
      f"{self.predicted_seconds / self.seconds:.2f}",
      f"{self.num_bytes / 1e6:.2f} MB",
      f"{self.predicted_bytes / 1e6:.2f} MB",
      f"{self.predicted_bytes / max(self.num_bytes, 1):.2f}",
    )


@contextlib.contextmanager
def training_step(model, config) -> Iterator[tuple[graphs.Step, tf.Graph]]:
  """Yields a step of a training graph, and the graph."""
  run_config = estimator_mp.run_config(config)
  with tf.Graph().as_default() as graph:
    v1.set_random_seed(1)
    v1.train.create_global_step()
    features, labels = graphs.batch_of(model.features, model.labels)
    spec = estimator_mp.shard_model_fn(model.model_fn, config)(
      features=features, labels=labels, mode="train", config=run_config
    )
    creator = v1.train.ChiefSessionCreator(
      spec.scaffold or v1.train.Scaffold(), config=run_config.session_config
    )
    with v1.train.MonitoredSession(creator) as monitored:
      session = monitored.run_step_fn(lambda step_context: step_context.session)
      yield graphs.Step(session, spec.train_op, config.create_mesh()), graph


def in_turns(steps):
  """Returns the seconds of each of several steps, in each round."""
  counts = [max(1, round(_SECONDS.value / (x.seconds(3) / 3))) for x in steps]
  return turns.in_turns(
    [
      lambda x=x, n=n: x.seconds(n) / n
      for x, n in zip(steps, counts, strict=True)
    ],
    _ROUNDS.value,
  )


def _rows(model, machine) -> Iterator[Row]:
  """Yields a row for each mesh; the meshes take turns."""
  costs = None
  if _MEASURED.value:
    costs = estimator_mp.measure_costs(model.model_fn, model.input_fn, steps=9)
  configs = [
    estimator_mp.ShardingConfig(mesh, num_micro_batches=count)
    for mesh, count in MESHES
  ]
  with contextlib.ExitStack() as stack:
    plain, *steps = (
      stack.enter_context(training_step(model, config))
      for config in (estimator_mp.ShardingConfig(), *configs)
    )
    of_plain, *of_rounds = in_turns([step for step, _ in (plain, *steps)])
    if costs is not None:  # Machines are faster or slower for minutes.
      costs = dataclasses.replace(
        costs, step_seconds=statistics.median(of_plain)
      )
    for (mesh, count), config, (step, graph), seconds in zip(
      MESHES, configs, steps, of_rounds, strict=True
    ):
      with graph.as_default():
        simulated = lowered_step.simulate(
          graph, dataclasses.replace(config, measured_costs=costs), machine
        )
      yield Row(
        model.name,
        mesh,
        count,
        statistics.median(seconds),
        simulated.seconds,
        max(step.trace().peak_live_bytes),
        max(x.live_bytes for x in simulated.devices),
      )


def order_share(rows: list[Row]) -> tuple[int, int]:
  """Returns how many pairs of meshes have the right order, and how many count.

  Args:
    rows: The rows; pairs of one model count that differ by more than a tenth.
  """
  right = total = 0
  for a, b in itertools.combinations(rows, 2):
    ratio = a.seconds / b.seconds
    if a.model == b.model and not 1 / 1.1 <= ratio <= 1.1:
      total += 1
      right += (ratio > 1) == (a.predicted_seconds > b.predicted_seconds)
  return right, total


def _error(pairs):
  """Returns the median error of pairs of what was measured and predicted."""
  return statistics.median(abs(found / real - 1) for real, found in pairs)


def main(argv: list[str]) -> None:
  """Prints the table, and saves its medians."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  machine, _ = measure.measure(1.0)
  print(machine)
  print(
    _ROW.format(
      *("model", "mesh", "M", "measured", "predicted", "ratio"),
      *("alive", "predicted", "ratio"),
    )
  )
  rows = []
  for model in planned_models.models():
    if re.search(_MODELS.value, model.name):
      for row in _rows(model, machine):
        print(row, flush=True)
        rows.append(row)
  right, total = order_share(rows)
  of_time = _error((x.seconds, x.predicted_seconds) for x in rows)
  of_bytes = _error((max(x.num_bytes, 1), x.predicted_bytes) for x in rows)
  found = [
    figures.Figure(what, "", (value,), (aim,), is_lower, is_aim=True)
    for what, value, aim, is_lower in (
      ("step time: median error", of_time, 0.15, True),
      ("bytes alive: median error", of_bytes, 0.15, True),
      ("pairs in the right order", right / max(total, 1), 0.9, False),
    )
  ]
  for x in rows:
    name = f"{x.model} on {x.mesh}, M={x.slices}"
    found += [
      figures.Figure(f"{name}: {what}", "", (ratio,), (1.0,), is_aim=True)
      for what, ratio in (
        ("time", x.predicted_seconds / x.seconds),
        ("bytes", x.predicted_bytes / max(x.num_bytes, 1)),
      )
    ]
  for figure in found[:3]:
    print(f"{figure.what}: {figure.value:.3f} (aim {figure.bound[0]})")
  print(f"{right} of {total} pairs that differ by more than a tenth")
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
