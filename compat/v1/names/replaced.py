"""Replacements of names of 1.15 that cannot come back."""

from collections.abc import Mapping

_MIXED = "tf.keras.mixed_precision of TensorFlow 2"
_PROFILER = "the TensorFlow Profiler, tf.compat.v2.profiler.experimental"
_RNN_FOR_LITE = "tf.keras.layers.LSTM, which tf.lite converts"
_SCIKIT = "the package scikeras"
_TPU = "tf.tpu.experimental.embedding"
_TREES = "the package tensorflow-decision-forests"

REPLACED: Mapping[str, str] = {
  "Operation.traceback_with_start_lines": "Operation.traceback",
  "config.experimental_list_devices": (
    "Session.list_devices, or tf.config.list_logical_devices"
  ),
  "data.Options.experimental_stateful_whitelist": (
    "tf.data.Options.experimental_external_state_policy"
  ),
  "data.Options.experimental_stats": _PROFILER,
  "data.experimental.CheckpointInputPipelineHook": (
    "tf.data.experimental.make_saveable_from_iterator"
  ),
  "data.experimental.DistributeOptions.auto_shard": (
    "tf.data.experimental.DistributeOptions.auto_shard_policy"
  ),
  "data.experimental.MapVectorizationOptions": (
    "tf.vectorized_map, or Dataset.batch before Dataset.map"
  ),
  "data.experimental.OptimizationOptions": "tf.data.Options.autotune",
  "data.experimental.Optional.none_from_structure": (
    "tf.data.experimental.Optional.empty"
  ),
  "data.experimental.Optional.value_structure": (
    "tf.data.experimental.Optional.element_spec"
  ),
  "data.experimental.StatsAggregator": _PROFILER,
  "data.experimental.StatsOptions": _PROFILER,
  "data.experimental.bytes_produced_stats": _PROFILER,
  "data.experimental.latency_stats": _PROFILER,
  "estimator.BoostedTreesClassifier": _TREES,
  "estimator.BoostedTreesEstimator": _TREES,
  "estimator.BoostedTreesRegressor": _TREES,
  "keras.Model.sample_weights": "the argument sample_weight of Model.fit",
  "keras.experimental.LinearCosineDecay": "tf.train.linear_cosine_decay",
  "keras.experimental.NoisyLinearCosineDecay": (
    "tf.train.noisy_linear_cosine_decay"
  ),
  "keras.experimental.PeepholeLSTMCell": (
    "tf.nn.rnn_cell.LSTMCell(use_peepholes=True)"
  ),
  "keras.experimental.export_saved_model": (
    "tf.keras.models.save_model(save_format='tf')"
  ),
  "keras.experimental.load_from_saved_model": "tf.keras.models.load_model",
  "keras.experimental.terminate_keras_multiprocessing_pools": (
    "multiprocessing.active_children"
  ),
  "keras.mixed_precision.experimental": _MIXED,
  "keras.utils.HDF5Matrix": "the package h5py, with tf.keras.utils.Sequence",
  "keras.utils.convert_all_kernels_in_model": (
    "weights that TensorFlow has saved"
  ),
  "keras.utils.multi_gpu_model": "tf.distribute.MirroredStrategy",
  "keras.wrappers.scikit_learn": _SCIKIT,
  "lite.experimental.get_potentially_supported_ops": (
    "tf.lite.TFLiteConverter, whose error names ops that it does not support"
  ),
  "lite.experimental.nn": _RNN_FOR_LITE,
  "raw_ops.CompareAndBitpack": "tf.greater and tf.bitwise.left_shift",
  **{
    f"raw_ops.{verb}TPUEmbedding{kind}ParametersGradAccumDebug": _TPU
    for verb in ("Load", "Retrieve")
    for kind in (
      "ADAM",
      "Adadelta",
      "Adagrad",
      "FTRL",
      "Momentum",
      "ProximalAdagrad",
      "RMSProp",
    )
  },
}
