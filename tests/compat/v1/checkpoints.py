"""Checkpoints of TensorFlow 1.15.5: written there, restored today.

A module of trained/ has models: cases as those of cases/ (recording.py), that
return (results, train_op). On 1.15.5, from the root of the repository,

    v115/bin/python -m tests.compat.v1.checkpoints [AREA ...]

trains each for some steps and writes golden/trained/AREA/MODEL/: a checkpoint
of all variables, what the model gives then, and what after one step more.
checkpoints_test.py restores it in today's TensorFlow: the names and shapes in
the checkpoint have to be the model's, and both results equal.
"""

import importlib
import os
import pkgutil
import sys
import tempfile

from tests.compat.v1 import recording, trained

import numpy as np

FOLDER = os.path.join(
  os.path.dirname(os.path.abspath(__file__)), "golden", "trained"
)
_RESULTS = "results.npz"


def areas():
  """Returns the names of the modules of trained/."""
  return [one.name for one in pkgutil.iter_modules(trained.__path__)]


def models_of(area):
  """Returns the models of one area, by name."""
  return recording.cases_of(
    importlib.import_module("%s.%s" % (trained.__name__, area))
  )


def prefix_of(area, name):
  """Returns the path of a checkpoint, as tf.train.Saver takes it."""
  return os.path.join(FOLDER, area, name, "model.ckpt")


def results_of(area, name):
  """Returns what was recorded beside a checkpoint."""
  with np.load(os.path.join(FOLDER, area, name, _RESULTS)) as arrays:
    return dict(arrays)


def write(tf, random_seed, area, name):
  """Trains a model, and writes its checkpoint and results."""
  prefix = prefix_of(area, name)
  with recording.numbered_seeds(random_seed), tf.Graph().as_default():
    results, train_op = models_of(area)[name]()
    saver = tf.train.Saver()
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      for _ in range(recording.STEPS):
        session.run(train_op)
      saver.save(session, prefix, write_meta_graph=False, write_state=False)
      found = _two_results(session, results, train_op)
  np.savez_compressed(os.path.join(os.path.dirname(prefix), _RESULTS), **found)


def restore(tf, random_seed, area, name):
  """Restores a checkpoint into its model as it is built now.

  Returns:
    the names and shapes that the model is saved with now, and the results.
  """
  with recording.numbered_seeds(random_seed), tf.Graph().as_default():
    results, train_op = models_of(area)[name]()
    saver = tf.train.Saver()
    with tf.Session() as session, tempfile.TemporaryDirectory() as folder:
      saver.restore(session, prefix_of(area, name))
      again = saver.save(session, os.path.join(folder, "model.ckpt"))
      variables = tf.train.list_variables(again)
      return variables, _two_results(session, results, train_op)


def _two_results(session, results, train_op):
  found = {}
  for when in ("restored", "trained"):
    for name, value in session.run(results).items():
      found["%s/%s" % (when, name)] = np.asarray(value)
    session.run(train_op)
  return found


def main():
  """Writes the checkpoints of the areas on the command line."""
  import tensorflow as tf
  from tensorflow.python.framework import random_seed

  assert tf.__version__ == "1.15.5", tf.__version__
  for area in sys.argv[1:] or areas():
    for name in models_of(area):
      os.makedirs(os.path.dirname(prefix_of(area, name)), exist_ok=True)
      write(tf, random_seed, area, name)
      print(area, name)


if __name__ == "__main__":
  main()
