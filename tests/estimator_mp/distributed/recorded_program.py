"""A program that writes down each step: what faults are tried on.

  python -m tests.estimator_mp.distributed.recorded_program DIR STEPS [MESH]

It trains a small network on `stage:3`, or MESH, shuffled, and saves each five
steps. Each step adds a line to `DIR/losses.txt`: its number and its loss. Steps
that were lost, and done again, are there twice. After the steps that
RECORD_HOLDS in the environment names, such as "17,40", it waits until `go_on`
is called, before it saves anything.
"""

import itertools
import json
import os
import sys
import time

import estimator_mp
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf

SAVE_STEPS = 5
HOLDS = "RECORD_HOLDS"
_LOSSES = "losses.txt"
_BATCH_SIZE = 12
# So that who watches the file sees most steps soon.
_STEP_SECONDS = 0.02


def _model_fn(features, labels, mode):
  loss = tf.reduce_mean((parts.logits(features["x"]) - labels) ** 2)
  return parts.spec(mode, loss, tf.compat.v1.train.AdamOptimizer(0.01))


def _data():
  draw = np.random.default_rng(3)
  x = draw.normal(size=(240, 8)).astype(np.float32)
  y = draw.normal(size=(240, 1)).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices(({"x": x}, y))


def _train_input_fn():
  return _data().shuffle(100, seed=5).repeat().batch(_BATCH_SIZE)


def _eval_input_fn():
  return _data().batch(_BATCH_SIZE)


class _RecordHook(tf.estimator.SessionRunHook):
  """Writes down the number and the loss of each step."""

  def __init__(self, model_dir):
    self._path = os.path.join(model_dir, _LOSSES)
    holds = os.environ.get(HOLDS, "")
    self._holds = {
      int(step): _go_file(model_dir, step) for step in holds.split(",") if step
    }

  def after_create_session(self, session, coord):
    # Counted from here on: a step that reads the variable which it counts up
    # itself gets the number before or after, whichever op comes first.
    self._step = int(session.run(tf.compat.v1.train.get_global_step()))

  def before_run(self, run_context):
    graph = run_context.session.graph
    losses = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)
    return tf.estimator.SessionRunArgs(losses[-1])

  def after_run(self, run_context, run_values):
    step, self._step = self._step, self._step + 1
    with open(self._path, "a") as file:
      file.write(f"{step} {float(run_values.results)!r}\n")
    time.sleep(_STEP_SECONDS)
    while step in self._holds and not os.path.exists(self._holds[step]):
      time.sleep(_STEP_SECONDS)


def _go_file(model_dir, step):
  return os.path.join(model_dir, f"go_{step}")


def go_on(model_dir, step):
  """Lets a run go on that waits after a step."""
  open(_go_file(model_dir, step), "w").close()


def read(model_dir):
  """Returns the number and the loss of each step, in the order of time."""
  path = os.path.join(model_dir, _LOSSES)
  if not os.path.exists(path):
    return []
  with open(path) as file:
    lines = file.read().split("\n")[:-1]  # The last one may be half a line.
  return [(int(step), float(loss)) for step, loss in map(str.split, lines)]


def expected_of(found, expected):
  """Returns the loss that each of some steps should have had.

  Args:
    found: What `read` returned of one run.
    expected: What it returned of a run without faults.
  """
  by_step = dict(expected)
  return [by_step[step] for step, _ in found]


def most_lost(found):
  """Returns how many steps were done again at most, after one fault."""
  steps = [step for step, _ in found]
  return max(
    (last + 1 - step for last, step in itertools.pairwise(steps)),
    default=0,
  )


def assert_calm(test, model_dir, steps, mesh="stage:3"):
  """Asserts that a run had the losses of one without faults, in this process.

  Args:
    test: The test.
    model_dir: The run's folder.
    steps: How many steps it was of.
    mesh: The mesh of the one without faults.
  """
  calm_dir = test.create_tempdir().full_path
  train(calm_dir, steps, mesh)
  expected, found = read(calm_dir), read(model_dir)
  test.assertEqual([step for step, _ in expected], [*range(steps)])
  test.assertEqual({step for step, _ in found}, {*range(steps)})
  np.testing.assert_allclose(
    [loss for _, loss in found], expected_of(found, expected), rtol=1e-5
  )
  test.assertLessEqual(most_lost(found), SAVE_STEPS)


def train(model_dir, steps, mesh="stage:3", heartbeat_timeout=2.0):
  """Trains and evaluates, in the task that TF_CONFIG says."""
  os.makedirs(model_dir, exist_ok=True)
  config = estimator_mp.ShardingConfig(mesh, num_micro_batches=2)
  estimator = tf.estimator.Estimator(
    estimator_mp.shard_model_fn(_model_fn, config),
    config=estimator_mp.run_config(
      config,
      model_dir,
      save_input_position=True,
      tf_random_seed=1,
    ),
  )
  # A step is written down before it is saved; then it is not done again.
  hooks = [
    _RecordHook(model_dir),
    tf.estimator.CheckpointSaverHook(model_dir, save_steps=SAVE_STEPS),
  ]
  estimator_mp.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(_train_input_fn, max_steps=steps, hooks=hooks),
    tf.estimator.EvalSpec(
      _eval_input_fn, start_delay_secs=0, throttle_secs=_throttle_seconds()
    ),
    trusted_network=True,
    heartbeat_timeout=heartbeat_timeout,
  )


def _throttle_seconds():
  """Returns the pause between evaluations: those of a chief take time."""
  task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
  return 1 if task.get("type") == "evaluator" else 600


def main(argv):
  """Trains."""
  train(argv[1], int(argv[2]), *argv[3:])
  print("ended")


if __name__ == "__main__":
  main(sys.argv)
