"""Notices are in the log unless the program wants errors only."""

import contextlib
import io
import logging
from unittest import mock

from estimator_mp import notices

import tensorflow as tf
from absl.testing import absltest, parameterized


class NoticesTest(parameterized.TestCase):
  @parameterized.parameters(
    (logging.INFO, ["INFO a", "INFO a", "INFO b"]),
    (logging.WARNING, ["INFO a", "INFO b"]),
    (logging.ERROR, []),
  )
  def test_are_shown_once_where_warnings_are(self, level, expected):
    logger = tf.get_logger()
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    with contextlib.ExitStack() as stack:
      stack.enter_context(mock.patch.object(logger, "handlers", [handler]))
      stack.enter_context(mock.patch.object(notices, "_shown", set()))
      stack.callback(logger.setLevel, logger.level)
      logger.setLevel(level)
      for line in ("a", "a", "b"):
        notices.show(line)
    self.assertEqual(text.getvalue().splitlines(), expected)


if __name__ == "__main__":
  absltest.main()
