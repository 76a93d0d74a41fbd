"""The part of tf.contrib that Estimator programs use most.

`compat.install(contrib=True)` puts this package where `tf.contrib` and
`tensorflow.contrib` were until TensorFlow 1.15. Each module has names of the
tf.contrib module that it is called after, with the same arguments, variable
names and results. Any other name raises an error that says what to use.
"""

from compat.contrib import absent

_MODULES = (
  "autograph",
  "batching",
  "bayesflow",
  "checkpoint",
  "cluster_resolver",
  "compiler",
  "crf",
  "cudnn_rnn",
  "data",
  "deprecated",
  "distribute",
  "distributions",
  "eager",
  "estimator",
  "factorization",
  "feature_column",
  "framework",
  "graph_editor",
  "hooks",
  "image",
  "integrate",
  "keras",
  "kernel_methods",
  "layers",
  "learn",
  "legacy_seq2seq",
  "lite",
  "lookup",
  "losses",
  "memory_stats",
  "metrics",
  "mixed_precision",
  "nn",
  "opt",
  "predictor",
  "resampler",
  "rnn",
  "saved_model",
  "seq2seq",
  "signal",
  "slim",
  "sparsemax",
  "staging",
  "stateless",
  "summary",
  "tensorboard",
  "tfprof",
  "tpu",
  "training",
  "util",
)

__getattr__ = absent.getter(__name__, _MODULES)


def __dir__() -> list[str]:
  return list(_MODULES)
