"""Sessions of tests."""

from tests import tiers

import tensorflow as tf


def config(**fields) -> tf.compat.v1.ConfigProto:
  """Returns a session's configuration; without Grappler in the fast tier.

  TensorFlow's optimizer of graphs takes a fifth of the time of a test of whole
  models. Where all cases are run, it runs, as it does in programs.

  Args:
    **fields: Of the configuration.
  """
  made = tf.compat.v1.ConfigProto(**fields)
  made.graph_options.rewrite_options.disable_meta_optimizer = tiers.FAST
  return made
