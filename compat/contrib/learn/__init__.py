"""tf.contrib.learn: models with `fit`, Experiment and what belongs to it.

Models are trained by today's tf.estimator.Estimator; their checkpoints have the
names of 1.15. Refused are `Estimator.export` and `utils.export_estimator`,
whose format, SessionBundle, is gone (`export_savedmodel` serves), the queue
that workers share, and of `datasets` boston, which scikit-learn has removed;
and the models DynamicRnnEstimator, LogisticRegressor and SVM.
"""

from compat.contrib import absent
from compat.contrib.learn.base import Evaluable, NotFittedError, Trainable
from compat.contrib.learn.columns import (
  infer_real_valued_columns_from_input,
  infer_real_valued_columns_from_input_fn,
)
from compat.contrib.learn.constants import (
  ModeKeys,
  PredictionKey,
  ProblemType,
  TaskType,
)
from compat.contrib.learn.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from compat.contrib.learn.dnn_linear_combined import (
  DNNLinearCombinedClassifier,
  DNNLinearCombinedEstimator,
  DNNLinearCombinedRegressor,
)
from compat.contrib.learn.estimator import BaseEstimator, Estimator, SKCompat
from compat.contrib.learn.experiment import Experiment
from compat.contrib.learn.export_strategy import ExportStrategy
from compat.contrib.learn.graph_runs import (
  infer,
  no_op_train_fn,
  run_feeds,
  run_n,
)
from compat.contrib.learn.head_base import Head
from compat.contrib.learn.heads import (
  binary_svm_head,
  multi_class_head,
  multi_head,
  multi_label_head,
  poisson_regression_head,
  regression_head,
)
from compat.contrib.learn.io import (
  extract_dask_data,
  extract_dask_labels,
  extract_pandas_data,
  extract_pandas_labels,
  extract_pandas_matrix,
  read_batch_examples,
  read_batch_features,
  read_batch_record_features,
  read_keyed_batch_examples,
  read_keyed_batch_features,
)
from compat.contrib.learn.kmeans import KMeansClustering
from compat.contrib.learn.linear import (
  LinearClassifier,
  LinearEstimator,
  LinearRegressor,
)
from compat.contrib.learn.metric_spec import MetricSpec
from compat.contrib.learn.model_fn import InputFnOps, ModelFnOps
from compat.contrib.learn.run_config import RunConfig
from compat.contrib.learn.utils import (
  build_parsing_serving_input_fn,
  make_export_strategy,
)

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(
  __name__,
  (
    "datasets",
    "io",
    "learn_runner",
    "monitors",
    "preprocessing",
    "utils",
  ),
)

NanLossDuringTrainingError = tf.compat.v1.train.NanLossDuringTrainingError

__all__ = [
  "BaseEstimator",
  "DNNClassifier",
  "DNNEstimator",
  "DNNLinearCombinedClassifier",
  "DNNLinearCombinedEstimator",
  "DNNLinearCombinedRegressor",
  "DNNRegressor",
  "Estimator",
  "Evaluable",
  "Experiment",
  "ExportStrategy",
  "Head",
  "InputFnOps",
  "KMeansClustering",
  "LinearClassifier",
  "LinearEstimator",
  "LinearRegressor",
  "MetricSpec",
  "ModeKeys",
  "ModelFnOps",
  "NanLossDuringTrainingError",
  "NotFittedError",
  "PredictionKey",
  "ProblemType",
  "RunConfig",
  "SKCompat",
  "TaskType",
  "Trainable",
  "binary_svm_head",
  "build_parsing_serving_input_fn",
  "extract_dask_data",
  "extract_dask_labels",
  "extract_pandas_data",
  "extract_pandas_labels",
  "extract_pandas_matrix",
  "infer",
  "infer_real_valued_columns_from_input",
  "infer_real_valued_columns_from_input_fn",
  "make_export_strategy",
  "multi_class_head",
  "multi_head",
  "multi_label_head",
  "no_op_train_fn",
  "poisson_regression_head",
  "read_batch_examples",
  "read_batch_features",
  "read_batch_record_features",
  "read_keyed_batch_examples",
  "read_keyed_batch_features",
  "regression_head",
  "run_feeds",
  "run_n",
]
