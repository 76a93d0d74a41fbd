"""What tf.contrib.estimator had, and its wheel keeps without a public name.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0: the heads of TensorFlow 1, and two functions that the wheel does not
export.
"""

from tensorflow_estimator.python.estimator import early_stopping, extenders
from tensorflow_estimator.python.estimator.canned import head as _heads

add_metrics = extenders.add_metrics
read_eval_metrics = early_stopping.read_eval_metrics

binary_classification_head = (
  _heads._binary_logistic_head_with_sigmoid_cross_entropy_loss
)
multi_class_head = _heads._multi_class_head_with_softmax_cross_entropy_loss
regression_head = _heads._regression_head
