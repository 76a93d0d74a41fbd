"""Steps of finished graphs, which nothing but the partitioner has touched."""

from estimator_mp import partitioner
from estimator_mp.comparison import whole_variables
from tests.estimator_mp import parts, session_configs

import tensorflow as tf

_v1 = tf.compat.v1
_STEPS = 3


def train(model, size, config=None):
  """Trains by what a model_fn leaves, partitioned or as it is.

  Args:
    model: A model of the catalogue.
    size: The name of its batches.
    config: How its graph is partitioned; None for the plain one.

  Returns:
    The losses of some steps, and whole variables after them, by names.
  """
  tf.keras.utils.set_random_seed(5)
  with tf.Graph().as_default() as graph:
    _v1.set_random_seed(3)
    batches = _v1.data.make_initializable_iterator(
      model.input_fn(size).repeat()
    )
    features, labels = batches.get_next()
    _v1.train.get_or_create_global_step()
    spec = parts.training_spec(model, features, labels)
    options = session_configs.config(device_count={"CPU": 4})
    if config is not None:
      options.allow_soft_placement = False
      tensors = [x for x in tf.nest.flatten((features, labels)) if _is_rows(x)]
      examples = [x for x in tensors if x.shape[0] == tensors[0].shape[0]]
      made = partitioner.Partitioner(
        parts.inputs(*examples),
        [spec.loss, spec.train_op],
        config,
        config.create_mesh(),
      )
      lowered = made.lower()
      loss, train_op = lowered.fetches
      spec = made.keep_equal(
        spec._replace(loss=loss, train_op=train_op), lowered.forward
      )
    variables = whole_variables.by_name(_v1.global_variables())
    start = [
      _v1.global_variables_initializer(),
      _v1.local_variables_initializer(),
      _v1.tables_initializer(),
      batches.initializer,
    ]
    graph.finalize()
    fetches = [spec.loss, spec.train_op]
    with _v1.Session(config=options) as session:
      session.run(start)
      losses = [session.run(fetches)[0] for _ in range(_STEPS)]
      values = session.run({name: x.parts for name, x in variables.items()})
  return losses, whole_variables.joined(variables, values)


def _is_rows(tensor):
  return isinstance(tensor, tf.Tensor) and bool(tensor.shape.rank)
