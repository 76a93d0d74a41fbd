"""Names of tf.contrib.estimator.

Estimators and heads are those of TensorFlow 1, as they were in tf.contrib.
"""

from compat.contrib import absent
from compat.private import wheel_names

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

_experimental = tf.compat.v1.estimator.experimental

BaselineEstimator = tf.compat.v1.estimator.BaselineEstimator
DNNEstimator = tf.compat.v1.estimator.DNNEstimator
DNNLinearCombinedEstimator = tf.compat.v1.estimator.DNNLinearCombinedEstimator
LinearEstimator = tf.compat.v1.estimator.LinearEstimator
InMemoryEvaluatorHook = _experimental.InMemoryEvaluatorHook
add_metrics = wheel_names.add_metrics
build_raw_supervised_input_receiver_fn = (
  _experimental.build_raw_supervised_input_receiver_fn
)
call_logit_fn = _experimental.call_logit_fn
dnn_logit_fn_builder = _experimental.dnn_logit_fn_builder
linear_logit_fn_builder = _experimental.linear_logit_fn_builder
make_early_stopping_hook = _experimental.make_early_stopping_hook
make_stop_at_checkpoint_step_hook = (
  _experimental.make_stop_at_checkpoint_step_hook
)
read_eval_metrics = wheel_names.read_eval_metrics
stop_if_higher_hook = _experimental.stop_if_higher_hook
stop_if_lower_hook = _experimental.stop_if_lower_hook
stop_if_no_decrease_hook = _experimental.stop_if_no_decrease_hook
stop_if_no_increase_hook = _experimental.stop_if_no_increase_hook

binary_classification_head = wheel_names.binary_classification_head
multi_class_head = wheel_names.multi_class_head
regression_head = wheel_names.regression_head
