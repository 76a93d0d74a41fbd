"""tf.Variable of 1.15, of which every variable is an instance."""

from typing import Any

import tensorflow as tf

_BASE: Any = tf.compat.v1.Variable


class _AnyVariable(type):
  """Counts the variables of TensorFlow 2, which Keras makes, as well.

  In 1.15 they were a kind of tf.Variable; today both are a kind of another
  class. Classes derived from this one derive from TensorFlow's.
  """

  def __new__(
    mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]
  ) -> Any:
    if not bases:
      return super().__new__(mcs, name, bases, namespace)
    real = tuple(_BASE if base is Variable else base for base in bases)
    return type(_BASE)(name, real, namespace)

  def __call__(cls, *args: Any, **kwargs: Any) -> Any:
    """Makes what tf.compat.v1.Variable makes."""
    return _BASE(*args, **kwargs)

  def __getattr__(cls, name: str) -> Any:
    return getattr(_BASE, name)

  def __dir__(cls) -> list[str]:
    return dir(_BASE)

  def __instancecheck__(cls, instance: Any) -> bool:
    return isinstance(instance, tf.Variable)

  def __subclasscheck__(cls, subclass: Any) -> bool:
    return issubclass(subclass, tf.Variable)


class Variable(metaclass=_AnyVariable):
  """tf.Variable as 1.15 had it; see tf.compat.v1.Variable."""
