"""What `import estimator_mp` offers, and which of it needs the extra."""

import inspect
import io
import os
import subprocess
import sys
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import run_plan
from estimator_mp.config import placement
from estimator_mp.config.schedules import orders
from estimator_mp.machines import machine
from estimator_mp.observe import model_plan, trace_hook
from estimator_mp.simulator import step
from model_fns import datasets
from tests import tiers

from absl.testing import absltest, parameterized

_EXTRA = r"pip install 'estimator-mp\[train\]'"


class PublicNamesTest(parameterized.TestCase):
  def test_a_name_is_in_one_place(self):
    self.assertNoCommonElements(estimator_mp.__all__, toolbox.__all__)

  @parameterized.parameters(estimator_mp, toolbox)
  def test_every_public_name_has_a_docstring(self, module):
    for name in module.__all__:
      thing = getattr(module, name)
      self.assertTrue(inspect.getdoc(thing), name)
      if inspect.isclass(thing):
        for attribute, value in vars(thing).items():
          if not attribute.startswith("_") and callable(value):
            self.assertTrue(inspect.getdoc(value), f"{name}.{attribute}")

  @tiers.slow
  def test_each_name_can_be_the_first(self):
    """A name imports its module only: no module waits for another's name."""
    program = """
import sys
import estimator_mp
for name in sorted(estimator_mp.__all__):
  getattr(estimator_mp, name)
  for module in [x for x in sys.modules if x.startswith("estimator_mp.")]:
    del sys.modules[module]
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)

  def test_the_toolbox_is_there_without_an_import_of_its_own(self):
    program = """
import sys
import estimator_mp
assert estimator_mp.toolbox.__all__
assert "tensorflow" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)

  def test_no_other_name(self):
    with self.assertRaisesRegex(
      AttributeError,
      "^module 'estimator_mp' has no attribute 'shard'; less common functions "
      "are in estimator_mp.toolbox$",
    ):
      _ = estimator_mp.shard
    self.assertContainsSubset(["__version__", "compare"], dir(estimator_mp))


class _Terminal(io.StringIO):
  def isatty(self):
    return True


class ExtraTest(absltest.TestCase):
  """What `pip install estimator-mp` leaves out is missed with its name."""

  def test_digits(self):
    with (
      mock.patch.dict(sys.modules, {"sklearn": None}),
      self.assertRaisesRegex(ValueError, f"needs scikit-learn; {_EXTRA}, or "),
    ):
      datasets.load("digits")

  def test_bar(self):
    with mock.patch.dict(sys.modules, {"tqdm": None}):
      toolbox.ProgressHook(1, stream=io.StringIO())
      with self.assertRaisesRegex(ValueError, f"needs tqdm; {_EXTRA}, or "):
        toolbox.ProgressHook(1, stream=_Terminal())

  def test_trace(self):
    with mock.patch.dict(sys.modules, {"matplotlib": None}):
      trace_hook.TraceHook([], self.create_tempdir().full_path)
      with self.assertRaisesRegex(ValueError, f"matplotlib .*; {_EXTRA}, or "):
        trace_hook.TraceHook([1], self.create_tempdir().full_path)

  def test_picture_of_a_placement(self):
    stage = placement.StagePlacement(0, "/device:CPU:0", ("dense",), 1, 4)
    cpu = machine.load("cpu")
    schedule = orders.make_schedule("1f1b", 1, 1)
    plan = model_plan.ModelPlan(
      "net",
      estimator_mp.Mesh.create("stage:1"),
      placement.Placement((stage,), {}),
      (),
      cpu,
      step.simulate(step.Step((step.StageWork(1.0, 2.0),), schedule, cpu, {})),
    )
    with (
      mock.patch.dict(sys.modules, {"matplotlib": None}),
      self.assertRaisesRegex(ValueError, f"needs matplotlib .*; {_EXTRA}, or "),
    ):
      run_plan.write(plan, "out")


if __name__ == "__main__":
  absltest.main()
