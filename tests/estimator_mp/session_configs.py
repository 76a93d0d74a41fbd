"""Sessions of tests: in the fast tier, without Grappler.

TensorFlow's optimizer of graphs takes a fifth of the time of a test of whole
models. Where all cases are run, it runs, as it does in programs.
"""

from tests import tiers

import tensorflow as tf


def config(**fields) -> tf.compat.v1.ConfigProto:
  """Returns the configuration of a session.

  Args:
    **fields: Of the configuration.
  """
  made = tf.compat.v1.ConfigProto(**fields)
  made.graph_options.rewrite_options.disable_meta_optimizer = tiers.FAST
  return made


def default(**fields) -> tf.compat.v1.ConfigProto | None:
  """Returns what a RunConfig is told that is told nothing else.

  Args:
    **fields: Of the configuration that None stands for.
  """
  return config(**fields) if tiers.FAST else None
