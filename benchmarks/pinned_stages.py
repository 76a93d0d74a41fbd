"""Two stages in two processes of a core each, against one process of a core.

The model is matrix products, so a core is what a process has. In turns, of the
same model and batches:

- one process on one core;
- two stages, each a task of a cluster on a core of its own;
- two such processes as the first, at the same time, each on a core of its own:
  two cores are not always twice one, as they share caches and memory.

The bound of two stages with M micro-batches is 2 M / (M + 1), and what the two
independent processes reach.

  ./bazelw run //benchmarks:pinned_stages
  ./bazelw run //benchmarks:pinned_stages -- --trace_dir=trace
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import figures
from estimator_mp.config.schedules import orders
from estimator_mp.pipeline import simulation

from absl import app, flags

_MICRO_BATCHES = flags.DEFINE_integer("micro_batches", 8, "M.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 9, "How many.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 5, "Steps of a turn.", lower_bound=1)
_WIDTH = flags.DEFINE_integer("width", 1024, "Units of a layer.")
_LAYERS = flags.DEFINE_integer("layers", 8, "How many.")
_BATCH = flags.DEFINE_integer("batch", 512, "Examples of a step.")
_TRACE_DIR = flags.DEFINE_string("trace_dir", None, "Where a trace goes.")
# What the processes are told by the benchmark.
_CORE = flags.DEFINE_integer("core", None, "This process's core.")
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "This process's.")

_WARM_UP = 3
_TRACED = 20


def _run_process() -> None:
  """Trains, on one core, as many steps as standard input asks for."""
  os.sched_setaffinity(0, [_CORE.value])
  # TensorFlow counts the cores when it is imported.
  import estimator_mp

  import numpy as np
  import tensorflow as tf

  v1 = tf.compat.v1

  class Turns(tf.estimator.SessionRunHook):
    """Waits before a turn, and prints the seconds after it."""

    left = 0
    started = 0.0

    def before_run(self, run_context):
      if not self.left:
        self.left = int(sys.stdin.readline() or 0)
        self.started = time.perf_counter()

    def after_run(self, run_context, run_values):
      self.left -= 1
      if self.left < 0:
        run_context.request_stop()
      elif not self.left:
        print(f"seconds {time.perf_counter() - self.started}", flush=True)

  def model_fn(features, labels, mode):
    net = features
    for index in range(_LAYERS.value):
      net = v1.layers.dense(net, _WIDTH.value, tf.nn.relu, name=f"l{index}")
    loss = tf.reduce_mean((net - labels) ** 2)
    step = v1.train.get_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def input_fn():
    rng = np.random.RandomState(3)
    x = rng.randn(_BATCH.value, _WIDTH.value).astype(np.float32)
    return tf.data.Dataset.from_tensors((x, x)).repeat()

  v1.logging.set_verbosity(v1.logging.ERROR)
  hooks = [Turns()]
  if "TF_CONFIG" in os.environ:
    half = _LAYERS.value // 2
    rules = [
      (f"^l{index}/", int(index >= half)) for index in range(_LAYERS.value)
    ]
    config = estimator_mp.ShardingConfig(
      "stage:2", placement=rules, num_micro_batches=_MICRO_BATCHES.value
    )
    run_config = estimator_mp.run_config(config, _MODEL_DIR.value)
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
    if _TRACE_DIR.value is not None:
      hooks.append(estimator_mp.TraceHook([_TRACED], _TRACE_DIR.value))
  else:
    run_config = tf.estimator.RunConfig(_MODEL_DIR.value)
  estimator_mp.train_and_evaluate(
    tf.estimator.Estimator(model_fn, config=run_config),
    tf.estimator.TrainSpec(input_fn, hooks=hooks),
    tf.estimator.EvalSpec(input_fn, steps=1),
    trusted_network=True,
  )


class _Process:
  """A process of the benchmark."""

  def __init__(self, name, core, folder, task=None):
    environment = {
      **os.environ,
      "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
      "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if task is not None:
      environment["TF_CONFIG"] = json.dumps(task)
    # All tasks of a cluster have one model_dir.
    model_dir = os.path.join(folder, "cluster" if task else name)
    self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    self._process = subprocess.Popen(
      [
        sys.executable,
        "-m",
        "benchmarks.pinned_stages",
        *sys.argv[1:],
        f"--core={core}",
        f"--model_dir={model_dir}",
      ],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._log,
      env=environment,
      text=True,
    )

  def ask(self, steps):
    """Asks for so many steps."""
    self._process.stdin.write(f"{steps}\n")
    self._process.stdin.flush()

  def seconds(self):
    """Returns the seconds of the steps that were asked for last."""
    for line in self._process.stdout:
      if line.startswith("seconds "):
        return float(line.split()[1])
    self._log.seek(0)
    raise RuntimeError(self._log.read()[-2000:])

  def end(self):
    """Ends the process."""
    self._process.stdin.close()
    self._process.kill()
    self._process.wait()
    self._log.close()


def _turn(*processes):
  """Lets processes run at the same time; returns their steps per second."""
  for process in processes:
    process.ask(_STEPS.value)
  return sum(_STEPS.value / process.seconds() for process in processes)


def _measure(folder):
  """Yields the steps per second of one, of both stages, of two, by round."""
  from tests.estimator_mp.distributed import clusters

  cluster = clusters.make_cluster(chief=1, worker=1)
  tasks = [
    {"cluster": cluster, "task": {"type": job, "index": 0}}
    for job in ("worker", "chief")
  ]
  alone = [_Process(f"plain_{core}", core, folder) for core in (0, 1)]
  stages = [
    _Process(f"stage_{core}", core, folder, tasks[1 - core]) for core in (0, 1)
  ]
  try:
    for round_ in range(-_WARM_UP, _ROUNDS.value):
      found = (_turn(alone[0]), _turn(stages[0]), _turn(*alone))
      if round_ >= 0:
        yield found
  finally:
    for process in (*alone, *stages):
      process.end()


def main(argv):
  """Measures, and prints the ratios next to their bounds."""
  del argv
  if _CORE.value is not None:
    _run_process()
    return
  if len(os.sched_getaffinity(0)) < 2:
    raise app.UsageError("this needs two cores")
  with tempfile.TemporaryDirectory() as folder:
    rounds = list(_measure(folder))
  schedule = orders.make_schedule("1f1b", 2, _MICRO_BATCHES.value)
  bound = simulation.speed_up_bound(schedule)
  one = statistics.median(x[0] for x in rounds)
  staged, both = (sorted(x[index] / x[0] for x in rounds) for index in (1, 2))
  print(f"one process on one core: {one:.2f} steps per second")
  for name, ratios in (
    ("two stages on a core each", staged),
    ("two independent processes", both),
  ):
    print(
      f"{name}: {statistics.median(ratios):.3f} times as many "
      f"(from {ratios[0]:.3f} to {ratios[-1]:.3f})"
    )
  print(f"the bound of two stages, M={_MICRO_BATCHES.value}: {bound:.3f}")
  # No more than two independent processes reach, in the same round.
  least = tuple(min(bound, x[2] / x[0]) for x in rounds)
  figures.save(
    [
      figures.Figure(
        "two stages on a core each / one process on one core",
        "",
        tuple(x[1] / x[0] for x in rounds),
        least,
      ),
      figures.Figure(
        "two independent processes / one process on one core",
        "",
        tuple(x[2] / x[0] for x in rounds),
        (2.0,),
      ),
      figures.Figure(
        "one process on one core", "steps/s", tuple(x[0] for x in rounds)
      ),
    ]
  )


if __name__ == "__main__":
  app.run(main)
