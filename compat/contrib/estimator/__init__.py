"""Names of tf.contrib.estimator.

Estimators and heads are those of TensorFlow 1, as they were in tf.contrib.
Refused are boosted trees, which the wheel has lost.
"""

from compat.contrib import absent
from compat.contrib.estimator.extenders import (
  clip_gradients_by_norm,
  export_all_saved_models,
  export_saved_model_for_mode,
  forward_features,
)
from compat.contrib.estimator.heads import (
  binary_classification_head,
  logistic_regression_head,
  multi_class_head,
  poisson_regression_head,
  regression_head,
)
from compat.contrib.estimator.multi_head import multi_head
from compat.contrib.estimator.multi_label import multi_label_head
from compat.contrib.estimator.replicate import (
  TowerOptimizer,
  replicate_model_fn,
)
from compat.contrib.estimator.rnn import RNNClassifier, RNNEstimator
from compat.private import wheel_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

_experimental = tf.compat.v1.estimator.experimental

BaselineEstimator = tf.compat.v1.estimator.BaselineEstimator
DNNEstimator = tf.compat.v1.estimator.DNNEstimator
DNNLinearCombinedEstimator = tf.compat.v1.estimator.DNNLinearCombinedEstimator
LinearEstimator = tf.compat.v1.estimator.LinearEstimator
InMemoryEvaluatorHook = _experimental.InMemoryEvaluatorHook
SavedModelEstimator = wheel_names.SavedModelEstimator
add_metrics = wheel_names.add_metrics
build_raw_supervised_input_receiver_fn = (
  _experimental.build_raw_supervised_input_receiver_fn
)
build_supervised_input_receiver_fn_from_input_fn = (
  wheel_names.build_supervised_input_receiver_fn_from_input_fn
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

__all__ = [
  "BaselineEstimator",
  "DNNEstimator",
  "DNNLinearCombinedEstimator",
  "InMemoryEvaluatorHook",
  "LinearEstimator",
  "RNNClassifier",
  "RNNEstimator",
  "SavedModelEstimator",
  "TowerOptimizer",
  "add_metrics",
  "binary_classification_head",
  "build_raw_supervised_input_receiver_fn",
  "build_supervised_input_receiver_fn_from_input_fn",
  "call_logit_fn",
  "clip_gradients_by_norm",
  "dnn_logit_fn_builder",
  "export_all_saved_models",
  "export_saved_model_for_mode",
  "forward_features",
  "linear_logit_fn_builder",
  "logistic_regression_head",
  "make_early_stopping_hook",
  "make_stop_at_checkpoint_step_hook",
  "multi_class_head",
  "multi_head",
  "multi_label_head",
  "poisson_regression_head",
  "read_eval_metrics",
  "regression_head",
  "replicate_model_fn",
  "stop_if_higher_hook",
  "stop_if_lower_hook",
  "stop_if_no_decrease_hook",
  "stop_if_no_increase_hook",
]
