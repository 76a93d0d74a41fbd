"""How far a Keras application in an Estimator is from `Model.fit`.

For each of the models it prints the largest difference of the losses of ten
steps, relative to the loss: of the plain model, and of the one on a mesh.

  ./bazelw run //benchmarks:keras_applications
  ./bazelw run //benchmarks:keras_applications -- --models=MobileNet
"""

import logging
import time

import model_fns
from benchmarks import figures
from tests.model_fns.keras_models import applications, fits

import numpy as np
import tensorflow as tf
from absl import app, flags

_MODELS = flags.DEFINE_list(
  "models", [*applications.SIZES], "Names of tf.keras.applications."
)
_MESH = flags.DEFINE_string("mesh", "stage:2", "The mesh.")
_STEPS = flags.DEFINE_integer("steps", applications.STEPS, "Training steps.")


def main(argv):
  """Prints a line for each model."""
  del argv
  logging.disable(logging.WARNING)
  print(f"TensorFlow {tf.__version__}, {_STEPS.value} steps, {_MESH.value}")
  print("model              layers  parameters     plain      mesh  seconds")
  found = []
  for name in _MODELS.value:
    begin = time.monotonic()
    model = applications.make(name)
    runs = {}
    for mesh in (None, _MESH.value):
      made = fits.estimator(model_fns.keras(model, mesh), mesh)
      runs[mesh] = fits.train(
        made, lambda name=name: applications.dataset(name), _STEPS.value
      )
    expected = np.array(
      fits.fit(model, applications.dataset(name), steps=_STEPS.value)
    )
    apart = [
      np.max(np.abs(losses - expected) / np.abs(expected))
      for losses in runs.values()
    ]
    print(
      f"{name:<18} {len(model.layers):6d} {model.count_params():11,d}"
      f" {apart[0]:9.1e} {apart[1]:9.1e} {time.monotonic() - begin:8.0f}",
      flush=True,
    )
    found.append(
      figures.Figure(
        f"{name}, plain and {_MESH.value}: largest difference of losses",
        "",
        (float(max(apart)),),
        (0.0,),
        is_lower_better=True,
      )
    )
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
