"""tf.estimator.BestExporter: when it exports."""

import os
import tempfile

import numpy as np
import tensorflow as tf

# Of evaluation, by the number of steps of training.
_LOSSES = [9.0, 5.0, 3.0, 4.0, 2.0, 2.0, 2.5]


def _model_fn(features, labels, mode):
  step = tf.train.get_or_create_global_step()
  rate = tf.get_variable("rate", [], initializer=tf.ones_initializer())
  outputs = {"y": features["x"] * rate}
  return tf.estimator.EstimatorSpec(
    mode,
    predictions=outputs,
    loss=tf.gather(tf.constant(_LOSSES), step) * rate,
    train_op=tf.assign_add(step, 1),
    export_outputs={"serve": tf.estimator.export.PredictOutput(outputs)},
  )


def _input_fn():
  return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])).repeat()


def _exports(restarts, **options):
  """What was compared, and how many comparisons were before each export."""
  folder = tempfile.mkdtemp()
  compared = []
  exported = []

  def compare(best_eval_result, current_eval_result):
    compared.append([best_eval_result["loss"], current_eval_result["loss"]])
    return best_eval_result["loss"] > current_eval_result["loss"]

  def serve():
    exported.append(len(compared))
    x = tf.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

  for steps in restarts:
    exporter = tf.estimator.BestExporter(
      serving_input_receiver_fn=serve, compare_fn=compare, **options
    )
    config = tf.estimator.RunConfig(save_checkpoints_steps=1)
    tf.estimator.train_and_evaluate(
      tf.estimator.Estimator(_model_fn, folder, config),
      tf.estimator.TrainSpec(_input_fn, max_steps=steps),
      tf.estimator.EvalSpec(
        _input_fn,
        steps=1,
        exporters=[exporter],
        start_delay_secs=0,
        throttle_secs=0,
      ),
    )
  name = options.get("name", "best_exporter")
  return {
    "compared": np.array(compared),
    "exported": np.array(exported),
    "kept": len(os.listdir(os.path.join(folder, "export", name))),
  }


def best_of_a_run():
  return _exports([4], exports_to_keep=1)


def best_after_a_restart():
  return _exports([3, 5], name="best")


def best_without_event_files():
  return _exports([3, 5], event_file_pattern=None)
