"""A synchronous program for chief, workers, parameter servers and evaluator.

  python -m tests.estimator_mp.distributed.between_graph_program MODEL_DIR MESH

Each of two workers trains on its half of each batch. It writes the losses of
its steps to MODEL_DIR/losses-JOB.json, and the evaluator its metrics.
"""

import json
import os
import pathlib
import sys

import estimator_mp
from tests.estimator_mp import runs
from tests.estimator_mp.models import data, networks

import tensorflow as tf

v1 = tf.compat.v1

BATCH = 20
STEPS = 4


def input_fn(input_context=None):
  """Batches of all examples, or of a worker's half of each batch."""
  dataset = tf.data.Dataset.from_tensor_slices((data.FEATURES, data.LABELS))
  dataset = dataset.batch(BATCH)
  if input_context is None:
    return dataset
  begin = input_context.input_pipeline_id * BATCH // 2

  def half(*batch):
    return tf.nest.map_structure(lambda x: x[begin : begin + BATCH // 2], batch)

  return dataset.map(half).repeat()


def model_fn(features, labels, mode, config=None):
  """Dense layers, and the mean of the workers' gradients."""
  logits = networks.net(features["x"])
  optimizer, hooks = v1.train.GradientDescentOptimizer(0.5), []
  if config is not None and config.num_ps_replicas:
    optimizer = v1.train.SyncReplicasOptimizer(
      optimizer, replicas_to_aggregate=config.num_worker_replicas
    )
    # Without tokens at the start, which would let workers run ahead.
    hook = optimizer.make_session_run_hook(config.is_chief, num_tokens=0)
    hooks.append(hook)
  spec = networks.spec(mode, logits, labels, networks.minimize(optimizer))
  return spec._replace(training_hooks=hooks)


def main(argv):
  """Is one task of the cluster."""
  _, model_dir, settings = argv
  task = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
  config = estimator_mp.ShardingConfig(**json.loads(settings))
  estimator = runs.make_estimator(
    estimator_mp.shard_model_fn(model_fn, config),
    config,
    None,
    model_dir,
    save_checkpoints_steps=STEPS,
    experimental_max_worker_delay_secs=0,
  )
  recorder = runs.LossRecorder()
  train_spec = tf.estimator.TrainSpec(input_fn, STEPS, [recorder])
  eval_spec = tf.estimator.EvalSpec(
    input_fn, steps=None, start_delay_secs=0, throttle_secs=1
  )
  estimator_mp.train_and_evaluate(estimator, train_spec, eval_spec, True, 60.0)
  if recorder.losses:
    path = pathlib.Path(model_dir, f"losses-{task}.json")
    path.write_text(json.dumps(recorder.losses))


if __name__ == "__main__":
  main(sys.argv)
