"""The modules of tf.estimator in the tensorflow-estimator wheel.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0. The `api` modules have the names of `tf.estimator`; publicly they are
found only through TensorFlow, which has lost them.
"""

V1 = "tensorflow_estimator.python.estimator.api._v1.estimator"
V2 = "tensorflow_estimator.python.estimator.api._v2.estimator"

# What older programs import, and the module of the wheel that it is.
MODULES = {
  "tensorflow.estimator": V2,
  "tensorflow.compat.v1.estimator": V1,
  "tensorflow.compat.v2.estimator": V2,
  "tensorflow.python.estimator": "tensorflow_estimator.python.estimator",
  "tensorflow.python.estimator.keras": (
    "tensorflow_estimator.python.estimator.keras_lib"
  ),
  **{
    f"tensorflow.python.tpu.{name}": (
      f"tensorflow_estimator.python.estimator.tpu.{name}"
    )
    for name in (
      "error_handling",
      "tpu_config",
      "tpu_context",
      "tpu_estimator",
      "util",
    )
  },
}
