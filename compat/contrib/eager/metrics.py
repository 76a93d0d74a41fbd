"""tf.contrib.eager.metrics: means over batches, eagerly or in a graph."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)


class Metric(tf.Module):
  """A metric: called with each batch, asked for its result.

  A subclass has `build`, which makes variables by `add_variable` at the first
  call, `call`, which takes a batch, and `result`.
  """

  def __init__(
    self, name: str | None = None, use_global_variables: bool = False
  ):
    """Makes the metric.

    Args:
      name: of the metric; by default the class's.
      use_global_variables: whether variables are global ones, and are saved.
    """
    called = name or type(self).__name__
    scope = "".join(one if one.isalnum() else "_" for one in called)
    super().__init__(name=scope if scope[0].isalpha() else f"_{scope}")
    self._called_name = called
    self._built = False
    self._use_global_variables = use_global_variables
    self._made: dict[str, Any] = {}
    self._initial: list[Any] = []

  @property
  def name(self) -> str:
    """The metric's name, as it was given."""
    return str(self._called_name)

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    """Takes a batch; returns what `call` returns."""
    if not self._built:
      with tf.compat.v1.variable_scope(
        self._name, use_resource=True, reuse=False
      ):
        self.build(*args, **kwargs)
      self._built = True
    return self.call(*args, **kwargs)

  def build(self, *args: Any, **kwargs: Any) -> None:
    """Makes the variables."""

  def call(self, *args: Any, **kwargs: Any) -> Any:
    """Takes a batch."""
    raise NotImplementedError(f"{type(self).__name__} has no call.")

  def result(self) -> Any:
    """Returns the metric's value."""
    raise NotImplementedError(f"{type(self).__name__} has no result.")

  def aggregate(self, metrics: Any) -> None:
    """Adds what other metrics of this class have."""
    raise NotImplementedError(f"{type(self).__name__} has no aggregate.")

  def add_variable(
    self,
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
  ) -> Any:
    """Makes a variable, from `build`."""
    keys = tf.compat.v1.GraphKeys
    collection = (
      keys.GLOBAL_VARIABLES
      if self._use_global_variables
      else keys.LOCAL_VARIABLES
    )
    variable = tf.compat.v1.get_variable(
      name,
      shape,
      dtype,
      initializer,
      trainable=False,
      collections=None if tf.executing_eagerly() else [collection],
      use_resource=True,
    )
    self._made[name] = variable
    self._initial.append((variable, initializer, shape, dtype))
    setattr(self, f"_{name}_variable", variable)
    return variable

  @property
  def variables(self) -> list[Any]:
    """The variables."""
    return list(self._made.values())

  def init_variables(self) -> Any:
    """Initializes the variables; in a graph, returns the op."""
    if not tf.executing_eagerly():
      return tf.group(*(one.initializer for one in self.variables))
    for variable, initializer, shape, dtype in self._initial:
      variable.assign(initializer(shape or [], dtype))
    return None


class Mean(Metric):
  """The mean of values, with weights."""

  def __init__(
    self,
    name: str | None = None,
    dtype: Any = tf.float64,
    use_global_variables: bool = False,
  ):
    """Makes the metric.

    Args:
      name: of the metric.
      dtype: of the sums.
      use_global_variables: whether variables are global ones, and are saved.
    """
    super().__init__(name, use_global_variables)
    self.dtype = dtype

  def build(self, *args: Any, **kwargs: Any) -> None:
    """Makes the sums."""
    del args, kwargs
    zeros = tf.compat.v1.zeros_initializer()
    self.numer = self.add_variable("numer", [], self.dtype, zeros)
    self.denom = self.add_variable("denom", [], self.dtype, zeros)

  def call(self, values: Any, weights: Any = None) -> Any:
    """Adds values.

    Args:
      values: numbers.
      weights: of the values, in a shape that is broadcast; None is 1.

    Returns:
      The arguments.
    """
    count = tf.cast(tf.size(values), self.dtype)
    total = tf.reduce_sum(tf.cast(values, self.dtype))
    if weights is not None:
      cast = tf.cast(weights, self.dtype)
      weighted = tf.cast(values, self.dtype) * cast
      total = tf.reduce_sum(weighted)
      count = tf.reduce_sum(tf.broadcast_to(cast, tf.shape(weighted)))
    updates = [self.denom.assign_add(count), self.numer.assign_add(total)]
    if tf.executing_eagerly():
      return values if weights is None else (values, weights)
    with tf.control_dependencies(updates):
      values = tf.identity(values)
    return values if weights is None else (values, tf.identity(weights))

  def aggregate(self, metrics: Any) -> None:
    """Adds the sums of other Means.

    Args:
      metrics: of the same type and dtype.
    """
    for metric in metrics:
      self.numer.assign_add(metric.numer)
      self.denom.assign_add(metric.denom)

  def result(self, write_summary: bool = True) -> Any:
    """Returns the mean.

    Args:
      write_summary: is not used; tf.summary.scalar writes the result.
    """
    del write_summary
    return self.numer / self.denom


def _same_shape(labels: Any, predictions: Any) -> None:
  labels.shape.assert_is_compatible_with(predictions.shape)


class Accuracy(Mean):
  """How many predictions are their labels."""

  def __init__(self, name: str | None = None, dtype: Any = tf.float64):
    """Makes the metric; see Mean."""
    super().__init__(name, dtype)

  def call(  # type: ignore[override]
    self, labels: Any, predictions: Any, weights: Any = None
  ) -> Any:
    """Adds predictions, [examples] as the labels are; returns the arguments."""
    labels, predictions = map(tf.convert_to_tensor, (labels, predictions))
    _same_shape(labels, predictions)
    return self._count(
      tf.equal(labels, tf.cast(predictions, labels.dtype)),
      labels,
      predictions,
      weights,
    )

  def _count(
    self, right: Any, labels: Any, predictions: Any, weights: Any
  ) -> Any:
    counted = super().call(tf.cast(right, self.dtype), weights)
    given = [labels, predictions]
    if weights is not None:
      given.append(tf.convert_to_tensor(weights))
    if tf.executing_eagerly():
      return tuple(given)
    with tf.control_dependencies(tf.nest.flatten(counted)):
      return tuple(map(tf.identity, given))


class CategoricalAccuracy(Accuracy):
  """How many greatest predictions are where the greatest labels are."""

  def call(  # type: ignore[override]
    self, labels: Any, predictions: Any, weights: Any = None
  ) -> Any:
    """Adds predictions, [examples, classes] as the labels are."""
    labels, predictions = map(tf.convert_to_tensor, (labels, predictions))
    _same_shape(labels, predictions)
    right = tf.equal(tf.argmax(labels, -1), tf.argmax(predictions, -1))
    return self._count(right, labels, predictions, weights)


class BinaryAccuracy(Accuracy):
  """How many predictions above a threshold are labels 1."""

  def __init__(
    self, threshold: float, name: str | None = None, dtype: Any = tf.float64
  ):
    """Makes the metric.

    Args:
      threshold: a greater prediction is 1, another 0.
      name: of the metric.
      dtype: of the sums.
    """
    super().__init__(name, dtype)
    self.threshold = threshold

  def call(  # type: ignore[override]
    self, labels: Any, predictions: Any, weights: Any = None
  ) -> Any:
    """Adds predictions, [examples] as the labels are."""
    labels, predictions = map(tf.convert_to_tensor, (labels, predictions))
    _same_shape(labels, predictions)
    ones = tf.cast(predictions > self.threshold, labels.dtype)
    return self._count(tf.equal(labels, ones), labels, predictions, weights)


class SparseAccuracy(Accuracy):
  """How many greatest predictions are at their labels."""

  def call(  # type: ignore[override]
    self, labels: Any, predictions: Any, weights: Any = None
  ) -> Any:
    """Adds predictions [examples, classes], with labels [examples]."""
    labels, predictions = map(tf.convert_to_tensor, (labels, predictions))
    greatest = tf.argmax(predictions, -1)
    right = tf.equal(tf.cast(labels, tf.int64), greatest)
    return self._count(right, labels, predictions, weights)
