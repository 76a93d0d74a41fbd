"""Examples that hypothesis draws: the same ones in each run.

A test that draws others each time fails some day in a change that has nothing
to do with it. To look for new ones:

  MP_DRAW_ANEW=1 python -m tests.estimator_mp.placement.partition_test
"""

import os

import hypothesis


def examples(count, is_shortened=True):
  """Returns the settings of a test that is to have some examples.

  It may take as long as it wants: time is the machine's.

  Args:
    count: How many examples.
    is_shortened: Whether a shorter example is looked for where one fails, which
      takes minutes with whole programs.
  """
  phases = [*hypothesis.Phase]
  if not is_shortened:
    phases = [hypothesis.Phase.generate]
  return hypothesis.settings(
    max_examples=count,
    phases=phases,
    derandomize=not os.environ.get("MP_DRAW_ANEW"),
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
  )
