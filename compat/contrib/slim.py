"""Names of tf.contrib.slim: those of tf-slim, which lives on by itself.

As in 1.15, the names of tf.contrib.layers and the variables of
tf.contrib.framework are here, too.
"""

from compat.contrib import framework, layers, packages

_MODULES = {
  "data_decoder": "tf_slim.data.data_decoder",
  "data_provider": "tf_slim.data.data_provider",
  "dataset": "tf_slim.data.dataset",
  "dataset_data_provider": "tf_slim.data.dataset_data_provider",
  "evaluation": "tf_slim.evaluation",
  "learning": "tf_slim.learning",
  "losses": "compat.contrib.losses",
  "metrics": "compat.contrib.metrics",
  "model_analyzer": "tf_slim.model_analyzer",
  "nets": "tf_slim.nets",
  "parallel_reader": "tf_slim.data.parallel_reader",
  "prefetch_queue": "tf_slim.data.prefetch_queue",
  "queues": "tf_slim.queues",
  "summaries": "tf_slim.summaries",
  "tfexample_decoder": "tf_slim.data.tfexample_decoder",
}

_OF_FRAMEWORK = (
  *framework.OF_SLIM,
  "assert_global_step",
  "create_global_step",
  "deprecated",
  "deprecated_arg_values",
  "get_global_step",
  "get_or_create_global_step",
  "zero_initializer",
)

# Public here, and not in tf.contrib.layers.
_OF_LAYERS = {
  "embedding_lookup_sparse_with_distributed_aggregation": (
    "compat.contrib.layers.embedding_lookups"
  ),
  "scattered_embedding_lookup": "compat.contrib.layers.scattered",
  "scattered_embedding_lookup_sparse": "compat.contrib.layers.scattered",
  "sparse_feature_cross": "compat.contrib.layers.crosses",
}

_FUNCTIONS_OF_SLIM = (
  "adaptive_clipping_fn",
  "arg_scope_func_key",
  "bucketize",
  "pool",
  "summarize_biases",
  "summarize_variables",
  "summarize_weights",
)

_PLACES = (
  {name: f"{layers.__name__}:{name}" for name in layers.__all__}
  | {name: f"{framework.__name__}:{name}" for name in _OF_FRAMEWORK}
  | {name: f"{module}:{name}" for name, module in _OF_LAYERS.items()}
  | {name: f"tf_slim:{name}" for name in _FUNCTIONS_OF_SLIM}
  | _MODULES
)

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = packages.getter(__name__, _PLACES)

__all__ = sorted(_PLACES)


def __dir__() -> list[str]:
  return __all__
