"""The error that this package raises when it cannot do its work."""


class CompatError(RuntimeError):
  """tf.estimator cannot be made available; the message says what to do."""
