"""Benchmark: a table split by rows, beside partitions that are made by hand.

The same model trains on the same four CPU devices with Adagrad: as a model_fn
with one plain table, split by the rule ("table", "div"), and as one whose
author made four partitions, put each on its device, and gave the list to
`tf.nn.embedding_lookup`. Both are alive in one process, with the same session
settings, ids and initial values, and take turns, some steps each. Below 1 the
split table is faster.

Ids are drawn as words are (Zipf's law), or evenly, so that rows are seldom in a
cache: then both sides take longer the larger the table is, and the growth of
the partitions is printed beside that of the split table.

The bounds: no op of a step makes more than a quarter of the table and what a
batch needs; a step with 20 million rows takes at most 1.3 times as long as one
with a hundred thousand; and not longer than one with partitions. On a machine
that does other work as well, look at the ratio of CPU time, which waits for
nobody.

  ./bazelw run //benchmarks:split_tables
"""

import contextlib
import functools
import statistics
import tempfile
import time

import estimator_mp
from benchmarks import figures, turns

import numpy as np
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_ROWS = flags.DEFINE_multi_integer(
  "rows", [100_000, 20_000_000], "Rows of the table.", lower_bound=4
)
_WIDTH = flags.DEFINE_integer("width", 16, "Columns of the table.")
_BATCH = flags.DEFINE_integer("batch", 1024, "Examples of a step.")
_IDS = flags.DEFINE_integer("ids", 16, "Ids of an example.")
_UNITS = flags.DEFINE_integer("units", 512, "Units of the layers above.")
_DRAWN = flags.DEFINE_enum(
  "drawn", "zipf", ["zipf", "evenly"], "How ids are drawn."
)
_ROUNDS = flags.DEFINE_integer("rounds", 11, "Turns of each.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 20, "Steps of a turn.", lower_bound=1)
_WARM_UP_STEPS = flags.DEFINE_integer(
  "warm_up_steps", 10, "Steps of each before.", lower_bound=2
)
_THREADS = flags.DEFINE_integer(
  "threads", 4, "How many ops may run at a time in a session.", lower_bound=1
)
_DEVICES = flags.DEFINE_list(
  "devices",
  [f"/cpu:{index}" for index in range(4)],
  "Where the shards are, such as gpu:0,gpu:1.",
)
_SPLIT, _BY_HAND = "split", "partitions by hand"
_TOLERANCE = 1e-4


def _table(name, rows):
  return v1.get_variable(
    name, [rows, _WIDTH.value], initializer=v1.constant_initializer(0.1)
  )


def _look_up(ids, num_rows):
  """Looks rows up in one plain table."""
  return tf.nn.embedding_lookup(_table("table", num_rows), ids)


def _look_up_by_hand(ids, num_rows):
  """Looks rows up in a partition on each device."""
  parts = []
  for i, device in enumerate(_DEVICES.value):
    with v1.device(device):
      parts.append(_table(f"table_{i}", num_rows // len(_DEVICES.value)))
  with v1.device(_DEVICES.value[0]):
    return v1.nn.embedding_lookup(parts, ids, partition_strategy="div")


def _make_model_fn(look_up, num_rows):
  """Returns a model_fn of some layers above what is looked up."""

  def model_fn(features, labels, mode):
    rows = look_up(features, num_rows)
    net = tf.reshape(rows, [_BATCH.value, _IDS.value * _WIDTH.value])
    for number, units in enumerate([_UNITS.value, _UNITS.value, 1]):
      kernel = v1.get_variable(
        f"kernel_{number}",
        [net.shape[1], units],
        initializer=v1.glorot_uniform_initializer(seed=number),
      )
      net = tf.matmul(tf.nn.relu(net) if number else net, kernel)
    loss = tf.reduce_mean(tf.square(net[:, 0] - labels))
    optimizer = v1.train.AdagradOptimizer(0.01)
    train_op = optimizer.minimize(
      loss, v1.train.get_global_step(), colocate_gradients_with_ops=True
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _on_first_device(model_fn):
  """Returns a model_fn whose ops are on the first device if they have none."""

  @functools.wraps(model_fn)
  def placed(features, labels, mode):
    with v1.device(_DEVICES.value[0]):
      return model_fn(features, labels, mode)

  return placed


def _ids(num_rows, size):
  """Returns ids for examples."""
  random = np.random.RandomState(1)
  shape = [size, _IDS.value]
  if _DRAWN.value == "evenly":
    return random.randint(num_rows, size=shape)
  # Ids that are drawn often are anywhere in the table.
  return random.zipf(1.2, size=shape) % num_rows * 7919 % num_rows


def _make_input_fn(num_rows):
  """Returns an input_fn of sixteen batches, for ever."""
  size = 16 * _BATCH.value
  ids = _ids(num_rows, size)
  labels = np.random.RandomState(2).randn(size).astype(np.float32)

  def input_fn():
    data = tf.data.Dataset.from_tensor_slices((ids, labels))
    return data.batch(_BATCH.value, drop_remainder=True).repeat().prefetch(4)

  return input_fn


class _LargestOutput(tf.estimator.SessionRunHook):
  """Finds out what op of the third step made most.

  Attributes:
    bytes: The bytes of the largest tensor that an op made.
    op: The name of the op.
  """

  def __init__(self):
    self.bytes, self.op = 0, ""
    self._steps = 0

  def before_run(self, run_context):
    self._steps += 1
    if self._steps != 3:
      return None
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    return tf.estimator.SessionRunArgs([], options=options)

  def after_run(self, run_context, run_values):
    if self._steps != 3:
      return
    for device in run_values.run_metadata.step_stats.dev_stats:
      for node in device.node_stats:
        for output in node.output:
          described = output.tensor_description
          dtype = tf.dtypes.as_dtype(described.dtype)
          size = np.prod([x.size for x in described.shape.dim], dtype=int)
          if dtype.is_numpy_compatible and size * dtype.size > self.bytes:
            self.bytes, self.op = int(size) * dtype.size, node.node_name


@contextlib.contextmanager
def _training(model_fn, config, num_rows, hooks=()):
  """Yields the training of a model."""
  session_config = estimator_mp.run_config(config).session_config
  session_config.intra_op_parallelism_threads = 1
  session_config.inter_op_parallelism_threads = _THREADS.value
  with tempfile.TemporaryDirectory() as folder:
    run_config = tf.estimator.RunConfig(
      folder,
      tf_random_seed=1,
      session_config=session_config,
      save_summary_steps=None,
      save_checkpoints_steps=None,
      save_checkpoints_secs=None,
      log_step_count_steps=None,
    )
    estimator = tf.estimator.Estimator(model_fn, config=run_config)
    training = turns.PausedTraining(estimator, _make_input_fn(num_rows), hooks)
    training.run(_WARM_UP_STEPS.value)
    yield training
    training.stop()


def _turn(training):
  """Returns milliseconds per step: the median, and the mean of CPU time."""
  start = time.process_time()
  seconds = training.run(_STEPS.value)
  cpu = time.process_time() - start
  return 1000 * statistics.median(seconds), 1000 * cpu / _STEPS.value


def _measure(num_rows):
  """Measures both sides with a table of so many rows.

  Returns:
    The medians of their milliseconds for a step, by name, and the figures.
  """
  config = estimator_mp.ShardingConfig(
    f"model:{len(_DEVICES.value)}",
    devices=_DEVICES.value,
    split=[("^table$", "div"), (".*", None)],
  )
  sharded = estimator_mp.shard_model_fn(
    _make_model_fn(_look_up, num_rows), config
  )
  by_hand = _on_first_device(_make_model_fn(_look_up_by_hand, num_rows))
  largest = _LargestOutput()
  with contextlib.ExitStack() as stack:
    trainings = {
      _SPLIT: stack.enter_context(
        _training(sharded, config, num_rows, [largest])
      ),
      _BY_HAND: stack.enter_context(_training(by_hand, config, num_rows)),
    }
    ours, theirs = turns.in_turns(
      [functools.partial(_turn, x) for x in trainings.values()], _ROUNDS.value
    )
    losses = [training.losses for training in trainings.values()]
  difference = max(map(abs, np.subtract(*losses)))
  if difference > _TOLERANCE:
    raise RuntimeError(
      f"the losses of the two sides differ by {difference:.2g}, more than "
      f"{_TOLERANCE:g}, so that they do not compute the same"
    )
  table = num_rows * _WIDTH.value * 4
  print(f"{num_rows} rows ({table / 2**20:.0f} MiB), ms per step:")
  (ours, our_cpu), (theirs, their_cpu) = (
    zip(*runs, strict=True) for runs in (ours, theirs)
  )
  aim = {"bound": (1.0,), "is_aim": True, "is_lower_better": True}
  what = f"{num_rows} rows: time of a step {_SPLIT} / {_BY_HAND}"
  found = [
    turns.print_ratio(f"  {what}", ours, theirs, **aim),
    turns.print_ratio(f"    {what}, of CPU time", our_cpu, their_cpu, **aim),
    figures.Figure(
      f"{num_rows} rows: largest tensor", "MiB", (largest.bytes / 2**20,)
    ),
    figures.Figure(
      f"{num_rows} rows: a shard", "MiB", (table / len(_DEVICES.value) / 2**20,)
    ),
  ]
  print(
    f"  largest tensor {largest.bytes / 2**20:.1f} MiB ({largest.op}), a shard "
    f"of the table has {table / len(_DEVICES.value) / 2**20:.1f} MiB"
  )
  medians = {
    name: statistics.median(runs)
    for name, runs in ((_SPLIT, ours), (_BY_HAND, theirs))
  }
  return medians, found


def main(argv):
  """Measures each size of table."""
  del argv
  v1.logging.set_verbosity(v1.logging.ERROR)
  measured = [_measure(num_rows) for num_rows in _ROWS.value]
  found = [figure for _, part in measured for figure in part]
  least, most = measured[0][0], measured[-1][0]
  for name in (_SPLIT, _BY_HAND):
    growth = most[name] / least[name]
    what = f"{name}: time with {_ROWS.value[-1]} / {_ROWS.value[0]} rows"
    aim = {"bound": (1.3,), "is_aim": True} if name == _SPLIT else {}
    found.append(
      figures.Figure(what, "", (growth,), is_lower_better=True, **aim)
    )
    print(
      f"{name}: {_ROWS.value[-1]} rows take {growth:.2f} times as long as "
      f"{_ROWS.value[0]}"
    )
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
