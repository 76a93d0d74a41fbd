"""Estimators of recurrent networks over sequence feature columns."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from compat.contrib.estimator.extenders import clip_gradients_by_norm
from compat.contrib.feature_column import sequence_input_layer
from compat.private import wheel_names

import tensorflow as tf

_v1 = tf.compat.v1
_cells = _v1.nn.rnn_cell
_Estimator: Any = _v1.estimator.Estimator
_MEAN = _v1.losses.Reduction.SUM_OVER_BATCH_SIZE

_LEARNING_RATE = 0.05
_CLIP_NORM = 5.0
_CELLS = {
  "basic_rnn": _cells.BasicRNNCell,
  "lstm": _cells.BasicLSTMCell,
  "gru": _cells.GRUCell,
}

CellFn = Callable[[str], Any]


class RNNEstimator(_Estimator):
  """An Estimator of a recurrent network, with a head of the program's."""

  def __init__(
    self,
    head: Any,
    sequence_feature_columns: Iterable[Any],
    context_feature_columns: Iterable[Any] | None = None,
    num_units: Sequence[int] | None = None,
    cell_type: Any = None,
    rnn_cell_fn: CellFn | None = None,
    return_sequences: bool = False,
    model_dir: str | None = None,
    optimizer: Any = "Adagrad",
    input_layer_partitioner: Any = None,
    config: Any = None,
  ):
    """Makes the Estimator.

    Args:
      head: what makes the loss and predictions of the logits.
      sequence_feature_columns: columns of sequences, all as long in an example.
      context_feature_columns: dense columns that each step gets as well.
      num_units: of each layer of cells.
      cell_type: "basic_rnn" (the default), "lstm", "gru", or a class of cells.
      rnn_cell_fn: makes the cell for a mode, in the place of the two.
      return_sequences: whether each step has logits; else the last one has.
      model_dir: where checkpoints are.
      optimizer: a tf.train.Optimizer, a function that makes one, or a name. But
        for the first, the rate of a name is 0.05, and the norm of gradients is
        clipped at 5.
      input_layer_partitioner: of the variables of embeddings.
      config: a RunConfig.

    Raises:
      ValueError: if the cell is given twice or not at all, or the head is not
        one of sequences and return_sequences is set.
    """
    if return_sequences and not isinstance(head, wheel_names.SequentialHead):
      raise ValueError(
        f"return_sequences=True needs a head of sequences; head={head} gives "
        "one result for each example."
      )
    cell_fn = _cell_fn(rnn_cell_fn, num_units, cell_type)
    sequence_columns = tuple(sequence_feature_columns or ())
    context_columns = tuple(context_feature_columns or ())

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
      if not isinstance(features, dict):
        raise ValueError(
          f"features must be a dict of tensors, not {type(features).__name__}."
        )
      chosen = _optimizer(optimizer)
      replicas = config.num_ps_replicas if config else 0
      tables = input_layer_partitioner or _v1.min_max_variable_partitioner(
        max_partitions=replicas, min_slice_size=64 << 20
      )
      with _v1.variable_scope(
        "rnn",
        values=tuple(features.values()),
        partitioner=_v1.min_max_variable_partitioner(max_partitions=replicas),
      ):
        inputs, lengths = _inputs(
          features, sequence_columns, context_columns, tables
        )
        outputs, _ = _v1.nn.dynamic_rnn(
          cell_fn(mode), inputs, sequence_length=lengths, dtype=tf.float32
        )
        if not return_sequences:
          outputs = _last_of(outputs, lengths)
        with _v1.variable_scope("logits", values=(outputs,)):
          logits = _v1.layers.dense(
            outputs,
            head.logits_dimension,
            kernel_initializer=_v1.glorot_uniform_initializer(),
          )
        if return_sequences:
          features.setdefault(
            head.input_sequence_mask_key, tf.sequence_mask(lengths)
          )
        return head.create_estimator_spec(
          features=features,
          mode=mode,
          labels=labels,
          train_op_fn=lambda loss: chosen.minimize(
            loss, global_step=_v1.train.get_global_step()
          ),
          logits=logits,
        )

    super().__init__(model_fn, model_dir=model_dir, config=config)


class RNNClassifier(RNNEstimator):
  """A recurrent network that tells the class of a sequence."""

  def __init__(
    self,
    sequence_feature_columns: Iterable[Any],
    context_feature_columns: Iterable[Any] | None = None,
    num_units: Sequence[int] | None = None,
    cell_type: Any = None,
    rnn_cell_fn: CellFn | None = None,
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    optimizer: Any = "Adagrad",
    loss_reduction: str = _MEAN,
    input_layer_partitioner: Any = None,
    config: Any = None,
  ):
    """Makes the classifier.

    Args:
      sequence_feature_columns: as of RNNEstimator, and so are all others.
      context_feature_columns: dense columns that each step gets as well.
      num_units: of each layer of cells.
      cell_type: of the cells.
      rnn_cell_fn: makes the cell for a mode, in the place of the two.
      model_dir: where checkpoints are.
      n_classes: how many classes.
      weight_column: the examples' weights: a column, or the feature's name.
      label_vocabulary: the classes' names, if labels are strings.
      optimizer: a tf.train.Optimizer, a function that makes one, or a name.
      loss_reduction: a tf.losses.Reduction.
      input_layer_partitioner: of the variables of embeddings.
      config: a RunConfig.

    Raises:
      ValueError: if the cell is given twice or not at all.
    """
    super().__init__(
      wheel_names.classification_head(
        n_classes, weight_column, label_vocabulary, loss_reduction
      ),
      sequence_feature_columns,
      context_feature_columns,
      num_units,
      cell_type,
      rnn_cell_fn,
      model_dir=model_dir,
      optimizer=optimizer,
      input_layer_partitioner=input_layer_partitioner,
      config=config,
    )


def _cell_fn(
  given: CellFn | None, num_units: Sequence[int] | None, cell_type: Any
) -> CellFn:
  """Returns what makes the cell for a mode."""
  if given:
    if num_units or cell_type is not None:
      raise ValueError(
        f"num_units={num_units} and cell_type={cell_type!r} are not for an "
        "rnn_cell_fn, which makes the whole cell. Give one or the other."
      )
    return given
  if not num_units:
    raise ValueError(
      f"num_units={num_units} must have the size of each layer; or give an "
      "rnn_cell_fn."
    )
  cell = _CELLS.get("basic_rnn" if cell_type is None else cell_type, cell_type)
  if not (isinstance(cell, type) and issubclass(cell, _cells.RNNCell)):
    raise ValueError(
      f"cell_type={cell_type!r} must be one of {', '.join(_CELLS)}, or a class "
      "of cells."
    )

  def make(mode: str) -> Any:
    del mode
    layers = [cell(num_units=units) for units in num_units]
    return layers[0] if len(layers) == 1 else _cells.MultiRNNCell(layers)

  return make


def _optimizer(given: Any) -> Any:
  if isinstance(given, _v1.train.Optimizer):
    return given
  made = wheel_names.optimizer_of(given, learning_rate=_LEARNING_RATE)
  return clip_gradients_by_norm(made, _CLIP_NORM)


def _inputs(
  features: dict[str, Any],
  sequence_columns: Sequence[Any],
  context_columns: Sequence[Any],
  partitioner: Any,
) -> tuple[Any, Any]:
  """Returns what the cell reads, [batch, steps, size], and the lengths."""
  with _v1.variable_scope(
    "sequence_input_layer",
    values=tuple(features.values()),
    partitioner=partitioner,
  ):
    sequences, lengths = sequence_input_layer(features, sequence_columns)
    _v1.summary.histogram("sequence_length", lengths)
    if context_columns:
      context = _v1.feature_column.input_layer(features, context_columns)
      steps = tf.shape(sequences)[1]
      repeated = tf.tile(context[:, tf.newaxis], [1, steps, 1])
      sequences = tf.concat([sequences, repeated], 2)
    return sequences, lengths


def _last_of(outputs: Any, lengths: Any) -> Any:
  """Returns the output of each example's last step, [batch, size]."""
  with _v1.name_scope("select_last_activations"):
    batch, steps, size = tf.unstack(tf.shape(outputs))
    begins = tf.cast(tf.range(batch) * steps, tf.int64)
    rows = tf.reshape(outputs, [batch * steps, size])
    last = tf.gather(rows, begins + lengths - 1)
    last.set_shape([outputs.shape[0], outputs.shape[2]])
    return last
