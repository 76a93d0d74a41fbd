"""What every model of this folder's tests has to show: sharding is not seen."""

import contextlib
import logging
import logging.handlers
import os
import sys

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import registry

from absl.testing import parameterized


class TransparencyTestCase(parameterized.TestCase):
  """Compares sharded runs of a model with the plain one."""

  @contextlib.contextmanager
  def _assert_no_warning(self):
    """Asserts that estimator_mp warns of nothing: nothing differs."""
    ours = os.path.dirname(estimator_mp.__file__) + os.sep
    handler = logging.handlers.BufferingHandler(sys.maxsize)
    handler.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow")]
    for logger in loggers:
      logger.addHandler(handler)
      self.addCleanup(logger.removeHandler, handler)
    yield
    found = [x for x in handler.buffer if x.pathname.startswith(ours)]
    self.assertEmpty([x.getMessage() for x in found])

  def assert_transparent(
    self, model: registry.Model, trains_only: bool = False
  ) -> None:
    """Asserts that a model sharded trains and serves as it does plain.

    From one checkpoint it is trained on three stages, which the automatic
    placement cuts in one way and `model.rules` in another.

    Args:
      model: The model.
      trains_only: Whether it is one of many that differ from each other in how
        they train only. What such a one gives for evaluation, and by rules, is
        compared only where all cases are run.
    """
    every = not (trains_only and tiers.FAST)
    placements = tiers.sample([("auto", "auto"), ("rules", model.rules)])
    for name, placement in placements:
      config = estimator_mp.ShardingConfig("stage:3", placement=placement)
      with self.subTest(name):
        with self._assert_no_warning():
          plain, run = runs.plain_and_sharded(
            self, model.model_fn, config, model.params, steps=3
          )
        runs.assert_same_training(self, run, plain)
        self.assertLen(run.devices, config.create_mesh().size)
        for device, contents in run.devices.items():
          self.assertNotEmpty(contents.variables, device)
        if name == "auto" and every:
          runs.assert_same_serving(self, run, plain)
