"""Errors for the names of tf.contrib that compat does not bring."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any

_PACKAGE = "compat.contrib"
_ALIAS = "tensorflow.contrib"

_REPLICAS = "tf.compat.v2.distribute.MultiWorkerMirroredStrategy"
_TPU = "tf.compat.v2.distribute.TPUStrategy"

# Replacements, by the name below tf.contrib. A module's entry also serves the
# names in it that have no entry of their own. Each is there for a program of
# TensorFlow 1, and for one that has tf.contrib alone.
REPLACEMENTS = {
  "all_reduce": "tf.distribute.CrossDeviceOps",
  "autograph": "tf.autograph",
  "batching": "tf.nondifferentiable_batch_function",
  "bayesflow": "the package tensorflow-probability",
  "bigtable": "the package tensorflow-io",
  "boosted_trees": "the package tensorflow-decision-forests",
  "checkpoint": "tf.train.Checkpoint",
  "checkpoint.NumpyState": (
    "tf.Variable, or tf.compat.v1.train.experimental.PythonState"
  ),
  "checkpoint.split_dependency": "one tf.Variable for each component",
  "cloud": "the package tensorflow-io",
  "compiler": "tf.xla.experimental",
  "compiler.xla.check_function_argument_count": "inspect.signature",
  "constrained_optimization": "the package tensorflow-constrained-optimization",
  "copy_graph": "tf.compat.v1.train.import_meta_graph",
  "cudnn_rnn": "tf.compat.v1.keras.layers.CuDNNLSTM and CuDNNGRU",
  "data": "tf.data.experimental",
  "data.CheckpointInputPipelineHook": (
    "make_saveable_from_iterator and the collection SAVEABLE_OBJECTS"
  ),
  "data.LMDBDataset": "the package lmdb with Dataset.from_generator",
  "distribute": "tf.distribute",
  "distribute.MultiWorkerAllReduce": (
    "tf.contrib.distribute.CollectiveAllReduceStrategy"
  ),
  "distributions": "the package tensorflow-probability",
  "eager": "tf.compat.v1.enable_eager_execution and tf.GradientTape",
  "eager.ExecutionCallback": "tf.debugging.enable_check_numerics",
  "eager.Network": "tf.keras.Model",
  "eager.Sequential": "tf.keras.Sequential",
  "eager.add_execution_callback": "tf.debugging.enable_check_numerics",
  "eager.clear_execution_callbacks": "tf.debugging.disable_check_numerics",
  "eager.errstate": "tf.debugging.enable_check_numerics",
  "eager.inf_callback": "tf.debugging.enable_check_numerics",
  "eager.inf_nan_callback": "tf.debugging.enable_check_numerics",
  "eager.nan_callback": "tf.debugging.enable_check_numerics",
  "eager.restore_network_checkpoint": "tf.train.Checkpoint.restore",
  "eager.restore_variables_on_create": "tf.train.Checkpoint.restore",
  "eager.save_network_checkpoint": "tf.train.Checkpoint.save",
  "eager.seterr": "tf.debugging.enable_check_numerics",
  "estimator": "tf.estimator",
  "estimator.DNNClassifierWithLayerAnnotations": "tf.estimator.DNNClassifier",
  "estimator.DNNRegressorWithLayerAnnotations": "tf.estimator.DNNRegressor",
  "estimator.boosted_trees_classifier_train_in_memory": (
    "the package tensorflow-decision-forests"
  ),
  "estimator.boosted_trees_regressor_train_in_memory": (
    "the package tensorflow-decision-forests"
  ),
  "factorization": "scikit-learn",
  "factorization.GMM": "sklearn.mixture.GaussianMixture",
  "factorization.KMeans": "tf.compat.v1.estimator.experimental.KMeans",
  "factorization.gmm": "sklearn.mixture.GaussianMixture",
  "ffmpeg": "the package tensorflow-io, or tf.audio.decode_wav",
  "gan": "the package tensorflow-gan",
  "graph_editor": "tf.contrib.graph_editor.copy_with_input_replacements",
  "hadoop": "the package tensorflow-io",
  "hooks": "tf.compat.v1.train.ProfilerHook",
  "ignite": "the package tensorflow-io",
  "image": "tf.image",
  "image.single_image_random_dot_stereograms": "tf.compat.v1.py_func and numpy",
  "input_pipeline": "tf.data",
  "integrate": "the package tensorflow-probability (tfp.math.ode)",
  "kafka": "the package tensorflow-io",
  "keras": "tf.keras",
  "kernel_methods": "tf.contrib.kernel_methods.RandomFourierFeatureMapper",
  "kernel_methods.KernelLinearClassifier": (
    "tf.estimator.LinearClassifier, whose input_fn maps features by "
    "tf.contrib.kernel_methods.RandomFourierFeatureMapper"
  ),
  "kinesis": "the package tensorflow-io",
  "labeled_tensor": "plain tensors",
  "layers": "tf.compat.v1.layers, or the package tf-slim",
  "layers.multi_class_target": "tf.contrib.learn.multi_class_head",
  "layers.regression_target": "tf.contrib.learn.regression_head",
  "learn": "tf.estimator",
  "learn.DynamicRnnEstimator": "tf.contrib.estimator.RNNEstimator",
  "learn.LogisticRegressor": "tf.contrib.learn.Estimator",
  "learn.SVM": "tf.contrib.learn.LinearEstimator with binary_svm_head",
  "learn.evaluate": "tf.compat.v1.train.MonitoredSession",
  "learn.graph_actions": "tf.compat.v1.train.MonitoredTrainingSession",
  "learn.head": "the heads of tf.contrib.learn",
  "learn.models": "tf.compat.v1.layers and tf.compat.v1.losses",
  "learn.ops": "tf.nn",
  "learn.read_keyed_batch_examples_shared_queue": ("tf.data.Dataset.shard"),
  "learn.read_keyed_batch_features_shared_queue": (
    "tf.data.Dataset.shard, or tf.contrib.learn.read_keyed_batch_features"
  ),
  "learn.train": "tf.compat.v1.train.MonitoredTrainingSession",
  "libsvm": "the package tensorflow-io",
  "linalg": "tf.linalg",
  "linear_optimizer": "tf.compat.v1.estimator.experimental.LinearSDCA",
  "lite": "tf.lite",
  "lookup": "tf.lookup",
  "losses": "tf.compat.v1.losses",
  "memory_stats": "tf.config.experimental.get_memory_info",
  "memory_stats.BytesLimit": "tf.config.experimental.get_memory_info",
  "metrics": "tf.compat.v1.metrics",
  "mixed_precision": "tf.compat.v1.mixed_precision",
  "model_pruning": "the package tensorflow-model-optimization",
  "nccl": "tf.distribute.NcclAllReduce",
  "nn": "tf.nn",
  "nn.rank_sampled_softmax_loss": "tf.nn.sampled_softmax_loss",
  "opt": "tf.keras.optimizers",
  "opt.ShampooOptimizer": "tf.contrib.opt.GGTOptimizer",
  "periodic_resample": "tf.nn.depth_to_space and tf.nn.space_to_depth",
  **{
    f"opt.{name}{kind}": _REPLICAS
    for name in ("AGN", "ElasticAverage", "ModelAverage")
    for kind in ("Optimizer", "CustomGetter")
  },
  "predictor": "tf.saved_model.load",
  "proto": "tf.io.decode_proto and tf.io.encode_proto",
  "quantize": "the package tensorflow-model-optimization",
  "rnn": "tf.compat.v1.nn.rnn_cell, or tf.keras.layers",
  "rnn.CFNCell": "tf.contrib.rnn.GRUCell",
  "rnn.NTMCell": "a tf.contrib.rnn.RNNCell of the program's own",
  "rnn.NTMControllerState": "a collections.namedtuple",
  "saved_model": "tf.saved_model",
  "slim": "the package tf-slim",
  "slim.DataFrameColumn": "tf.contrib.layers.real_valued_column",
  "slim.InputLayer": "tf.compat.v1.feature_column.input_layer",
  "slim.ProblemType": "tf.contrib.learn.ProblemType",
  "slim.binary_svm_target": "tf.compat.v1.losses.hinge_loss",
  "slim.experimental": "tf.contrib.framework.deprecated",
  "slim.get_default_binary_metrics_for_eval": "tf.metrics",
  "slim.make_all": "__all__",
  "slim.multi_class_target": "tf.contrib.learn.multi_class_head",
  "slim.regression_target": "tf.contrib.learn.regression_head",
  "specs": "tf.compat.v1.layers",
  "staging": "tf.data.Dataset.prefetch",
  "stat_summarizer": "tf.compat.v1.profiler",
  "summary": "tf.compat.v1.summary, or tf.summary",
  "summary.create_db_writer": "tf.contrib.summary.create_file_writer",
  "tensor_forest": "the package tensorflow-decision-forests",
  "tensorboard": "the package tensorboard",
  "tensorrt": "tf.compat.v2.experimental.tensorrt",
  "tfprof": "tf.compat.v1.profiler",
  "tfprof.tfprof_logger": "tf.compat.v1.profiler.write_op_log",
  "timeseries": (
    "tf.compat.v1.estimator, or the package tensorflow-probability (sts)"
  ),
  "tpu": "tf.compat.v1.tpu, or tf.compat.v1.estimator.tpu",
  "tpu.TPUDistributionStrategy": _TPU,
  "tpu.keras_to_tpu_model": _TPU,
  "tpu.profiler": "tf.compat.v2.profiler.experimental",
  "training": "tf.compat.v1.train, or tf.data",
  "training.FeedingQueueRunner": "tf.compat.v1.train.QueueRunner",
  **{
    f"training.{name}": "tf.data, with a layer of tf.keras that is stateful"
    for name in (
      "NextQueuedSequenceBatch",
      "SequenceQueueingStateSaver",
      "batch_sequences_with_states",
    )
  },
  **{
    f"training.{name}": "tf.data.experimental.rejection_resample"
    for name in (
      "rejection_sample",
      "resample_at_rate",
      "stratified_sample",
      "weighted_resample",
    )
  },
  "util": "tf.nest and tf.make_ndarray",
}


def replacement_of(name: str) -> str | None:
  """Returns what to use in the place of a name below tf.contrib, if known."""
  return REPLACEMENTS.get(name) or REPLACEMENTS.get(name.partition(".")[0])


def message(name: str) -> str:
  """Returns what to say to a program that uses an absent name.

  Args:
    name: the name below tf.contrib, "layers.conv2d".
  """
  replacement = replacement_of(name)
  said = f"tf.contrib.{name} is not among the names that compat brings back. "
  if replacement is None:
    return said + "There is no replacement for it in TensorFlow 2."
  return f"{said}Use {replacement} instead."


def _without_folders(name: str) -> str:
  """Returns "layers.utils" for "layers.python.layers.utils"."""
  module, is_deep, path = name.partition(".python.")
  return f"{module}.{path.rpartition('.')[2]}" if is_deep else name


def _below_contrib(name: str) -> str | None:
  for root in (f"{_PACKAGE}.", f"{_ALIAS}."):
    if name.startswith(root):
      return name.removeprefix(root)
  return None


def getter(
  module: str, submodules: Collection[str] = ()
) -> Callable[[str], Any]:
  """Returns a `__getattr__` for a module of compat.contrib.

  Args:
    module: the module's `__name__`.
    submodules: those to import when they are first asked for.
  """
  below = module.removeprefix(_PACKAGE).removeprefix(".")

  def get(name: str) -> Any:
    if name in submodules or (below and name == "python"):
      return importlib.import_module(f"{module}.{name}")
    if name.startswith("__"):
      raise AttributeError(name)
    raise AttributeError(message(f"{below}.{name}" if below else name))

  return get


class AbsentFinder(importlib.abc.MetaPathFinder):
  """Finds the deep paths of 1.15 and explains all others; asked last."""

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import a deep path, None for what is not tf.contrib's.

    Raises:
      ImportError: for an absent name.
    """
    name = _below_contrib(fullname)
    if name is None:
      return None
    from compat.contrib import deep, second_names  # They ask this module.

    spec = deep.spec_of(name) or second_names.spec_of(name)
    if spec is None:
      raise ImportError(message(_without_folders(name)))
    return spec


_FINDER = AbsentFinder()


def explain_imports() -> None:
  """Makes `from tensorflow.contrib import ABSENT` say what to use."""
  if _FINDER not in sys.meta_path:
    sys.meta_path.append(_FINDER)
