"""Notices: the few lines that each program's log has, by no flag.

TensorFlow's log shows only warnings and errors unless the program asks for
more. Where it shows warnings, it shows notices, too.
"""

import logging

import tensorflow as tf

_shown: set[str] = set()


def show(text: str) -> None:
  """Logs a text where Estimator logs: once as a notice, then as information.

  Args:
    text: The text.
  """
  logger = tf.get_logger()
  if text in _shown or not logger.isEnabledFor(logging.WARNING):
    tf.compat.v1.logging.info("%s", text)
    return
  _shown.add(text)
  record = logger.makeRecord(
    logger.name, logging.INFO, __name__, 0, text, (), None
  )
  logger.handle(record)
