"""Benchmark: two replicas, beside tf.distribute.MirroredStrategy.

The same model_fn trains on the same two CPU devices: sharded on the mesh
`data:2`, and by an Estimator whose `train_distribute` is a MirroredStrategy, as
it is and with `ReductionToOneDevice`. All are alive in one process, with the
same session settings and batch, and take turns, some steps each. Below 1 the
sharded model_fn is faster.

The bound: two replicas on two cores cannot take less time for a step than the
plain model takes on one core for half of the batch. That takes turns with the
others, so the ratio cannot be below its time divided by MirroredStrategy's.

On a machine that does other work as well, look at the ratios of CPU time, which
wait for nobody: if a step takes longer than its CPU time, the cores were taken.

That all do the same is checked: where matrices were multiplied, by the graphs
that the devices executed, and that the losses of all steps are the same.

  ./bazelw run //benchmarks:data_parallel

Options of `ShardingConfig` for replicas are flags, such as `--variables`, and
so are two devices: `--devices=gpu:0,gpu:1`.
"""

import contextlib
import dataclasses
import functools
import statistics
import tempfile
import time
from collections.abc import Callable

import estimator_mp
from benchmarks import figures, turns
from estimator_mp import toolbox

import numpy as np
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_MODELS = flags.DEFINE_multi_enum(
  "models", ["mlp", "embeddings"], ["mlp", "embeddings"], "What to train."
)
_BATCH = flags.DEFINE_integer(
  "batch", 512, "Examples of a step, of both replicas.", lower_bound=2
)
_ROUNDS = flags.DEFINE_integer("rounds", 15, "Turns of each.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 30, "Steps of a turn.", lower_bound=1)
_WARM_UP_STEPS = flags.DEFINE_integer(
  "warm_up_steps", 20, "Steps of each before.", lower_bound=2
)
_WIDTH = flags.DEFINE_integer("width", 512, "Units of the MLP's layers.")
_TABLES = flags.DEFINE_integer("tables", 8, "Embedding tables.")
_ROWS = flags.DEFINE_integer("rows", 100_000, "Rows of each table.")
_THREADS = flags.DEFINE_integer(
  "threads", 2, "How many ops may run at a time in a session.", lower_bound=2
)
_THREADS_PER_OP = flags.DEFINE_integer(
  "threads_per_op", 1, "How many threads an op may use; 0 for all cores."
)
estimator_mp.define_sharding_flags(
  only=(
    "mesh",
    "devices",
    "variables",
    "optimizer_state",
    "aggregation",
    "bucket_bytes",
  ),
  mesh="data:2",
)
_CPUS = ("/cpu:0", "/cpu:1")
_NUM_CLASSES = 10
_NUM_FEATURES = 256
_EMBEDDING_WIDTH = 32
_ALONE = "half of the batch on one core"
# Sums of the same numbers in another order.
_TOLERANCE = 1e-4


def _spec(mode, net, labels, optimizer):
  loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net)
  )
  train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _dense(net, units, number):
  # With a seed of its own, as the sides' graphs have different ops.
  shape = [net.shape[-1], units]
  initializer = v1.glorot_uniform_initializer(seed=number)
  kernel = v1.get_variable(f"kernel_{number}", shape, initializer=initializer)
  bias = v1.get_variable(
    f"bias_{number}", [units], initializer=v1.zeros_initializer()
  )
  return tf.nn.bias_add(tf.matmul(net, kernel), bias)


def _mlp(features, labels, mode):
  """Four layers with Adam."""
  net = features
  for number in range(4):
    net = tf.nn.relu(_dense(net, _WIDTH.value, number))
  net = _dense(net, _NUM_CLASSES, 4)
  return _spec(mode, net, labels, v1.train.AdamOptimizer(1e-4))


def _embeddings(features, labels, mode):
  """A row of each of several tables, and a small MLP, with Adagrad."""
  rows = []
  for number in range(_TABLES.value):
    table = v1.get_variable(
      f"table_{number}",
      [_ROWS.value, _EMBEDDING_WIDTH],
      initializer=v1.random_normal_initializer(stddev=0.1, seed=number),
    )
    rows.append(tf.nn.embedding_lookup(table, features[:, number]))
  net = tf.concat(rows, axis=1)
  for number in range(2):
    net = tf.nn.relu(_dense(net, 64, number))
  net = _dense(net, _NUM_CLASSES, 2)
  return _spec(mode, net, labels, v1.train.AdagradOptimizer(0.01))


def _features(name, size):
  """Returns features for a model."""
  rng = np.random.RandomState(1)
  if name == "mlp":
    return rng.randn(size, _NUM_FEATURES).astype(np.float32)
  return rng.randint(_ROWS.value, size=[size, _TABLES.value]).astype(np.int32)


def _make_input_fn(name, batch):
  """Returns an input_fn of sixteen batches of both replicas, for ever."""
  size = 16 * _BATCH.value
  features = _features(name, size)
  labels = np.random.RandomState(2).randint(_NUM_CLASSES, size=[size])

  def input_fn():
    data = tf.data.Dataset.from_tensor_slices((features, labels))
    return data.batch(batch, drop_remainder=True).repeat().prefetch(4)

  return input_fn


@dataclasses.dataclass(frozen=True)
class _Side:
  """A way to train.

  Attributes:
    model_fn: The model_fn.
    batch: How many examples its input_fn gives at a time.
    make_strategy: Makes the strategy, if there is one.
    is_parallel: Whether several ops may run at a time.
  """

  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  batch: int
  make_strategy: Callable[[], tf.distribute.Strategy | None] = lambda: None
  is_parallel: bool = True


def _sides(model_fn, config):
  """Returns the sides by name, ours first."""
  both = _BATCH.value
  # MirroredStrategy gives each replica a batch of the input_fn.
  half = both // 2
  devices = config.devices
  return {
    "data:2": _Side(estimator_mp.shard_model_fn(model_fn, config), both),
    "MirroredStrategy": _Side(
      model_fn, half, lambda: tf.distribute.MirroredStrategy(devices)
    ),
    "MirroredStrategy with ReductionToOneDevice": _Side(
      model_fn,
      half,
      lambda: tf.distribute.MirroredStrategy(
        devices, tf.distribute.ReductionToOneDevice()
      ),
    ),
    _ALONE: _Side(model_fn, half, is_parallel=False),
  }


def _session_config(config, num_threads):
  """Returns hard placement on two CPU devices, for all sides alike."""
  proto = estimator_mp.run_config(config).session_config
  proto.intra_op_parallelism_threads = _THREADS_PER_OP.value
  proto.inter_op_parallelism_threads = num_threads
  return proto


@contextlib.contextmanager
def _training(name, side, config):
  """Yields the training of a side, and what its devices executed."""
  num_threads = _THREADS.value if side.is_parallel else 1
  with tempfile.TemporaryDirectory() as folder:
    run_config = tf.estimator.RunConfig(
      folder,
      tf_random_seed=1,
      session_config=_session_config(config, num_threads),
      save_summary_steps=None,
      save_checkpoints_steps=None,
      save_checkpoints_secs=None,
      log_step_count_steps=None,
      train_distribute=side.make_strategy(),
    )
    estimator = tf.estimator.Estimator(side.model_fn, config=run_config)
    hook = toolbox.PlacementVerificationHook()
    training = turns.PausedTraining(
      estimator, _make_input_fn(name, side.batch), [hook]
    )
    training.run(_WARM_UP_STEPS.value)
    yield training, hook.observed
    training.stop()


def _check_devices(name, observed):
  """Raises unless both devices multiplied the same number of matrices."""
  counts = [
    sum(n for kind, n in contents.op_types.items() if "MatMul" in kind)
    for contents in observed.values()
  ]
  if len(counts) != 2 or len(set(counts)) > 1:
    raise RuntimeError(
      f"{name} multiplied {counts} matrices on {[*observed]}; two replicas "
      "multiply as many on each of two devices"
    )


def _check_losses(name, losses, others):
  """Raises unless two sides computed the same; returns how far they differ."""
  difference = max(map(abs, np.subtract(losses, others)))
  if difference > _TOLERANCE:
    raise RuntimeError(
      f"the losses of {name} differ by {difference:.2g}, more than "
      f"{_TOLERANCE:g}, so that it does not compute the same"
    )
  return difference


def _turn(training):
  """Returns milliseconds per step: the median, and the mean of CPU time."""
  start = time.process_time()
  seconds = training.run(_STEPS.value)
  cpu = time.process_time() - start
  return 1000 * statistics.median(seconds), 1000 * cpu / _STEPS.value


def _measure(name, model_fn):
  """Measures all sides of one model, and prints ratios and the bound.

  Returns:
    The ratios.
  """
  config = estimator_mp.ShardingConfig.from_flags()
  if not config.devices:
    # Those of strategies, also where there are GPUs.
    config = dataclasses.replace(config, devices=_CPUS)
  trainings = {}
  with contextlib.ExitStack() as stack:
    for side_name, side in _sides(model_fn, config).items():
      training, observed = stack.enter_context(_training(name, side, config))
      trainings[side_name] = training
      if side_name != _ALONE:
        _check_devices(side_name, observed)
    runs = turns.in_turns(
      [functools.partial(_turn, x) for x in trainings.values()], _ROUNDS.value
    )
    losses = {key: training.losses for key, training in trainings.items()}
  wall, cpu = (
    {
      key: [turn[index] for turn in run]
      for key, run in zip(trainings, runs, strict=True)
    }
    for index in range(2)
  )
  ours, *others = (x for x in trainings if x != _ALONE)
  print(f"{name}, {len(losses[ours])} steps, ms per step (CPU time):")
  for key in trainings:
    print(
      f"  {key}: {statistics.median(wall[key]):.2f} "
      f"({statistics.median(cpu[key]):.2f})"
    )
  found = []
  for other in others:
    difference = _check_losses(other, losses[ours], losses[other])
    ratio = turns.print_ratio(f"  {ours} / {other}", wall[ours], wall[other])
    bound = turns.print_ratio(
      "    bound, half of the batch", wall[_ALONE], wall[other]
    )
    of_cpu = turns.print_ratio("    of CPU time", cpu[ours], cpu[other])
    print(f"    largest difference of losses {difference:.2g}")
    what = f"{name}: {ratio.what}"
    found += [
      dataclasses.replace(
        ratio, what=what, bound=bound.rounds, is_lower_better=True
      ),
      dataclasses.replace(of_cpu, what=f"{what}, of CPU time"),
    ]
  return found


def _prepare_devices():
  """Makes two CPU devices for strategies, which look outside of sessions."""
  cpu, *_ = tf.config.list_physical_devices("CPU")
  logical = tf.config.LogicalDeviceConfiguration()
  tf.config.set_logical_device_configuration(cpu, [logical] * len(_CPUS))
  # The first one in the process says how many threads all ops share.
  tf.config.threading.set_intra_op_parallelism_threads(_THREADS_PER_OP.value)


def main(argv):
  """Measures each model."""
  del argv
  _prepare_devices()
  v1.logging.set_verbosity(v1.logging.ERROR)
  found = []
  for name in _MODELS.value:
    found += _measure(name, {"mlp": _mlp, "embeddings": _embeddings}[name])
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
