"""Ordinary model_fns in slices of the batch, by their finished graphs.

Nothing of a model_fn is intercepted: the graph that it leaves is partitioned,
and the steps of that are the plain graph's.
"""

import inspect
import random

from estimator_mp import partitioner
from tests import tiers
from tests.estimator_mp import programs, session_configs
from tests.estimator_mp.models import catalogue, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_STEPS = 3
_SLICES = 3

_ALL = [
  (f"{name}_{size}", name, size)
  for name, model in catalogue.MODELS.items()
  for size in model.inputs
  if model.tags & {"ordinary", "network"} and not model.is_random
]
_FAST = [
  # Convolutions, and a batch normalization whose slices exchange sums.
  ("cnn_open", "cnn", "open"),
  # Sums of which one operand is whole were added once for each slice.
  ("batch_normalisation_static", "batch_normalisation", "static"),
  # A size was read without what its op waits for: a train_op.
  ("counted_examples_open", "counted_examples", "open"),
  # Rows of examples are split again after a sort of the batch.
  ("nt_xent_open", "nt_xent", "open"),
]


def _train(model, size, num_slices=None):
  """Returns the losses of some steps, and the variables after them."""
  random.seed(5)
  with tf.Graph().as_default():
    _v1.set_random_seed(3)
    batches = _v1.data.make_initializable_iterator(
      model.input_fn(size).repeat()
    )
    features, labels = batches.get_next()
    _v1.train.get_or_create_global_step()
    known = {
      "features": features,
      "labels": labels,
      "mode": tf.estimator.ModeKeys.TRAIN,
      "params": model.params,
      "config": tf.estimator.RunConfig(),
    }
    asked = inspect.signature(model.model_fn).parameters
    spec = model.model_fn(**{k: x for k, x in known.items() if k in asked})
    fetches = [spec.loss, spec.train_op]
    variables = _v1.global_variables()
    start = [
      _v1.global_variables_initializer(),
      _v1.local_variables_initializer(),
      _v1.tables_initializer(),
      batches.initializer,
    ]
    if num_slices:
      tensors = [x for x in tf.nest.flatten((features, labels)) if _is_rows(x)]
      examples = [x for x in tensors if x.shape[0] == tensors[0].shape[0]]
      fetches = partitioner.Partitioner(examples, fetches).lower(num_slices)
    with _v1.Session(config=session_configs.config()) as session:
      session.run(start)
      losses = [session.run(fetches)[0] for _ in range(_STEPS)]
      values = session.run(variables)
  return losses, {
    variable.op.name: value
    for variable, value in zip(variables, values, strict=True)
  }


def _is_rows(tensor):
  return isinstance(tensor, tf.Tensor) and bool(tensor.shape.rank)


class PartitionerTest(parameterized.TestCase):
  @parameterized.named_parameters(_FAST if tiers.FAST else _ALL)
  def test_steps_are_the_plain_graphs(self, name, size):
    model = catalogue.MODELS[name]
    losses, variables = _train(model, size)
    found, found_variables = _train(model, size, _SLICES)
    rtol = 1e-4 if "transformer" in name else 2e-5
    np.testing.assert_allclose(found, losses, rtol)
    # A key's bias has no gradient but rounding, which Adam brings to full size.
    but = [name for name in variables if "/key/bias" in name]
    programs.assert_same_variables(self, found_variables, variables, rtol, but)

  def test_one_slice_is_the_plain_graph_bit_for_bit(self):
    model = catalogue.MODELS["mlp_adam"]
    losses, variables = _train(model, registry.OPEN)
    found, found_variables = _train(model, registry.OPEN, 1)
    self.assertEqual(found, losses)
    for name, value in variables.items():
      np.testing.assert_array_equal(found_variables[name], value)


if __name__ == "__main__":
  absltest.main()
