"""Names of tf.contrib.estimator that its wheel keeps as private ones.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0: the heads of TensorFlow 1, what a head is made of, and functions that
the wheel does not export. SequentialHead is the class of heads for sequences.
"""

from tensorflow_estimator.python.estimator import early_stopping, extenders
from tensorflow_estimator.python.estimator.canned import head as _heads
from tensorflow_estimator.python.estimator.canned import (
  optimizers as _optimizers,
)
from tensorflow_estimator.python.estimator.canned.saved_model_estimator import (
  SavedModelEstimator,
)
from tensorflow_estimator.python.estimator.export.export import (
  build_supervised_input_receiver_fn_from_input_fn,
)
from tensorflow_estimator.python.estimator.head import (
  sequential_head as _sequential_head,
)

__all__ = [
  "Head",
  "LossSpec",
  "SavedModelEstimator",
  "SequentialHead",
  "add_metrics",
  "auc",
  "binary_classification_head",
  "build_supervised_input_receiver_fn_from_input_fn",
  "call_loss_fn",
  "checked_labels",
  "checked_logits",
  "classification_head",
  "classification_output",
  "metrics_at_threshold",
  "multi_class_head",
  "optimizer_of",
  "predictions_mean",
  "read_eval_metrics",
  "regression_head",
  "validate_loss_fn",
  "weights_of",
]

add_metrics = extenders.add_metrics
read_eval_metrics = early_stopping.read_eval_metrics

binary_classification_head = (
  _heads._binary_logistic_head_with_sigmoid_cross_entropy_loss
)
multi_class_head = _heads._multi_class_head_with_softmax_cross_entropy_loss
classification_head = _heads._binary_logistic_or_multi_class_head
regression_head = _heads._regression_head
SequentialHead = _sequential_head._SequentialHead
optimizer_of = _optimizers.get_optimizer_instance

# The class of heads, and its parts.
Head = _heads._Head
LossSpec = _heads.LossSpec
auc = _heads._auc
call_loss_fn = _heads._call_loss_fn
checked_labels = _heads._check_dense_labels_match_logits_and_reshape
checked_logits = _heads._check_logits_final_dim
classification_output = _heads._classification_output
predictions_mean = _heads._predictions_mean
validate_loss_fn = _heads._validate_loss_fn_args
weights_of = _heads._get_weights_and_check_match_logits
metrics_at_threshold = {
  "accuracy": _heads._accuracy_at_threshold,
  "precision": _heads._precision_at_threshold,
  "recall": _heads._recall_at_threshold,
}
