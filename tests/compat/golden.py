"""Writes what golden_test.py reads: checkpoints, SavedModels, predictions.

    python -m tests.compat.golden tests/compat/golden_files

trains the models of models.py and writes them to a directory named after the
TensorFlow release at work. The files in the repository were written once, by
TensorFlow 2.15.1 with its own tf.estimator and by 2.21.0 with compat, and are
not written again: programs in the field have such files.
"""

import glob
import os
import shutil
import sys
import tempfile

import compat

compat.install()

from tests.compat import models  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

CHECKPOINT = "model.ckpt"
SAVED_MODEL = "saved_model"
PREDICTIONS = "predictions.npy"


def write(model: models.Model, directory: str) -> None:
  """Trains one model and writes its files.

  Args:
    model: what to train.
    directory: where the files go; must not exist.
  """
  os.makedirs(directory)
  with tempfile.TemporaryDirectory() as scratch:
    estimator = model.make(os.path.join(scratch, "model"))
    estimator.train(lambda params: model.input_fn().repeat(), steps=24)
    checkpoint = estimator.latest_checkpoint()
    for path in glob.glob(f"{checkpoint}.*"):
      ending = path.removeprefix(checkpoint)
      if ending != ".meta":  # The graph is not needed to read variables.
        shutil.copy(path, os.path.join(directory, CHECKPOINT + ending))
    exported = estimator.export_saved_model(
      os.path.join(scratch, "export"), model.serving_input_receiver_fn
    )
    shutil.copytree(os.fsdecode(exported), os.path.join(directory, SAVED_MODEL))
    np.save(os.path.join(directory, PREDICTIONS), model.predict(estimator))


def main() -> None:
  """Writes all models' files to the directory on the command line."""
  release = ".".join(tf.__version__.split(".")[:2])
  for name, model in models.MODELS.items():
    write(model, os.path.join(sys.argv[1], f"tf{release}", name))


if __name__ == "__main__":
  main()
