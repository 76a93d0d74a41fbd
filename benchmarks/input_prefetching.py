"""What the input of a step costs, and what is left of it if it is prefetched.

First the batch alone, without a model: it is taken from `tf.data` and cut, with
the time of taking it whole subtracted,

- by a slice for each micro-batch, where the graph knows the size of the batch;
- the same where it does not;
- in the data set: it has micro-batches, and a step takes M elements.

Then steps of an MLP of two stages, in turns with `prefetch_inputs` and without.
Times are the least of many, as other programs of the machine only add to them.

  ./bazelw run //benchmarks:input_prefetching
"""

import tempfile
import time

import estimator_mp
from benchmarks import figures, mlp_sides, turns
from benchmarks import mlp as mlp_lib

import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_CUT_INTO = flags.DEFINE_multi_integer(
  "cut_into", [4, 8, 32], "M of a batch without a model.", lower_bound=2
)
_MICRO_BATCHES = flags.DEFINE_integer(
  "micro_batches", 8, "M of the steps.", lower_bound=2
)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "How many.", lower_bound=1)
_CUTS = flags.DEFINE_integer("cuts", 200, "Cuts of a turn.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 10, "Steps of a turn.", lower_bound=1)
_WIDTH = flags.DEFINE_integer("width", 1024, "Units of a layer.")
_LAYERS = flags.DEFINE_integer("layers", 8, "How many.")
_BATCH = flags.DEFINE_integer("batch", 512, "Examples of a step.")

# What is ready when a turn begins was made while another side had its own.
_READY = 3
_WAYS = ("known slices", "open slices", "M elements")


def _elements(mlp, size, is_known):
  """Returns parts of the batch, again and again, as a data set."""

  def parts(array):
    return array.reshape([-1, size, mlp.width])

  data = tf.data.Dataset.from_tensor_slices(
    (parts(mlp.features()), parts(mlp.labels()))
  ).repeat()
  if is_known:
    return data
  return data.map(
    lambda *pair: tuple(
      v1.placeholder_with_default(x, [None, mlp.width]) for x in pair
    )
  )


def _slices(tensor, count):
  """Returns slices of a tensor, by one op for each."""
  size = (tensor.shape[0] or tf.shape(tensor)[0]) // count
  return [tensor[i * size : (i + 1) * size] for i in range(count)]


def _timer(mlp, way, count):
  """Returns a function that gives the least seconds of taking a batch."""
  graph = tf.Graph()
  with graph.as_default():
    size = mlp.batch // count if way == "M elements" else mlp.batch
    data = _elements(mlp, size, way != "open slices")
    iterator = v1.data.make_one_shot_iterator(data)
    if way == "M elements":
      fetches = [iterator.get_next() for _ in range(count)]
    else:
      fetches = iterator.get_next()
      if way != "whole":
        fetches = [_slices(x, count) for x in fetches]
    ops = tf.group(tf.nest.flatten(fetches))
  session = v1.Session(graph=graph)
  run = session.make_callable(ops)

  def seconds():
    found = []
    for _ in range(_CUTS.value):
      start = time.perf_counter()
      run()
      found.append(time.perf_counter() - start)
    return min(found)

  return seconds


def _cuts(mlp, count):
  """Returns what the ways to cut take, in milliseconds."""
  timers = [_timer(mlp, way, count) for way in ("whole", *_WAYS)]
  whole, *ways = turns.in_turns(timers, _ROUNDS.value)
  return [
    figures.Figure(
      f"cut by {way}, M={count}",
      "ms",
      [1e3 * (x - least) for x, least in zip(found, whole, strict=True)],
    )
    for way, found in zip(_WAYS, ways, strict=True)
  ]


def _training(mlp, count, ahead, folder):
  """Returns the training of a side, which waits for its turn."""
  config = estimator_mp.ShardingConfig(
    "stage:2",
    placement=[
      (f"^{mlp.name(layer)}/", mlp.stage(layer, 2))
      for layer in range(mlp.layers)
    ],
    num_micro_batches=count,
    prefetch_inputs=ahead,
  )
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(mlp_sides.make_model_fn(mlp), config),
    config=estimator_mp.run_config(
      config, f"{folder}/{count}_{ahead}", tf_random_seed=1
    ),
  )
  return turns.PausedTraining(
    estimator, lambda: _elements(mlp, mlp.batch, True)
  )


def _steps(mlp, count, folder):
  """Returns the ratios of steps, prefetched and not: of time, and CPU time."""
  sides = [_training(mlp, count, ahead, folder) for ahead in (True, False)]

  def timer(side):
    def seconds():
      before = time.process_time()
      steps = side.run(_READY + _STEPS.value)
      return min(steps[_READY:]), time.process_time() - before

    return seconds

  ahead, now = (
    zip(*found, strict=True)
    for found in turns.in_turns([timer(x) for x in sides], _ROUNDS.value)
  )
  if sides[0].losses != sides[1].losses:
    raise ValueError("the losses of prefetched batches are others")
  for side in sides:
    side.stop()
  name = f"time of a step prefetched / not, M={count}"
  return [
    turns.print_ratio(
      what, *measured, bound=(1.0,), is_lower_better=True, is_aim=True
    )
    for what, *measured in zip(
      (name, f"{name}, of CPU time"), ahead, now, strict=True
    )
  ]


def main(argv):
  """Measures, and prints what it found."""
  del argv
  v1.logging.set_verbosity(v1.logging.ERROR)
  mlp = mlp_lib.Mlp(_LAYERS.value, _WIDTH.value, _BATCH.value)
  found = [x for count in _CUT_INTO.value for x in _cuts(mlp, count)]
  with tempfile.TemporaryDirectory() as folder:
    found += _steps(mlp, _MICRO_BATCHES.value, folder)
  figures.show(found)
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
