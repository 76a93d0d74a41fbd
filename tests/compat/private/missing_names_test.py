"""The names that compat supplies are those that TensorFlow lacks, no others.

names_test.py says whether TensorFlow lacks them.
"""

import ast
import importlib
import os
import pkgutil
import types

import compat
from compat import versions
from compat.private import missing_names, probe

from absl.testing import absltest, parameterized

compat.install()

import tensorflow as tf  # noqa: E402
import tensorflow_estimator  # noqa: E402

VERSION = versions.parse(tf.__version__)


def _lacks(module, name):
  """Returns whether this TensorFlow has no such name, by the table."""
  return not any(
    one.is_expected(VERSION)
    for one in probe.read()
    if (one.module, one.name) == (module, name)
  )


def _wheel_modules():
  names = [
    module.name
    for module in pkgutil.walk_packages(
      tensorflow_estimator.__path__, "tensorflow_estimator."
    )
    # Helpers of the wheel's own tests; they miss a name on 2.15 as well.
    if "testing_utils" not in module.name
  ]
  return [importlib.import_module(name) for name in names]


def _dotted(node):
  """Returns ["tf", "train", "Saver"] for that expression, or None."""
  if isinstance(node, ast.Name):
    return [node.id]
  if isinstance(node, ast.Attribute):
    head = _dotted(node.value)
    return head and [*head, node.attr]
  return None


def _missing_names(module):
  """Returns the names of TensorFlow that a module uses, but are not there."""
  with open(module.__file__) as source:
    tree = ast.parse(source.read())
  chains = {
    tuple(chain)
    for node in ast.walk(tree)
    if isinstance(node, ast.Attribute) and (chain := _dotted(node))
  }
  missing = []
  for chain in sorted(chains):
    found = vars(module).get(chain[0])
    if not isinstance(found, types.ModuleType):
      continue
    if not found.__name__.startswith("tensorflow"):
      continue
    for name in chain[1:]:
      if not isinstance(found, types.ModuleType):
        break
      if not hasattr(found, name):
        missing.append(".".join(chain))
        break
      found = getattr(found, name)
  return missing


class SuppliedTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (module.name.rpartition(".")[2], module)
    for module in missing_names.SUPPLIED_MODULES
  )
  def test_module(self, module):
    package, _, name = module.name.rpartition(".")
    supplied = importlib.import_module(module.name)
    expected = module.supplied_by if _lacks(package, name) else module.name
    self.assertEqual(supplied.__name__, expected)

  @parameterized.named_parameters(
    (moved.name, moved) for moved in missing_names.MOVED_NAMES
  )
  def test_moved_name(self, moved):
    self.assertTrue(_lacks(moved.module, moved.name))
    # TensorFlow 2.15 is left as it is.
    supplied = hasattr(importlib.import_module(moved.module), moved.name)
    self.assertEqual(supplied, VERSION >= versions.FIRST_WITHOUT_ESTIMATOR)

  def test_estimator_api_name(self):
    tf_export = importlib.import_module(missing_names.TF_EXPORT)
    self.assertEqual(tf_export.ESTIMATOR_API_NAME, "estimator")
    name = tf_export.get_canonical_name_for_symbol(
      tf.estimator.RunConfig, api_name="estimator"
    )
    self.assertEqual(name, "estimator.RunConfig")

  @parameterized.parameters(*missing_names.TPU_EXPERIMENTAL_NAMES)
  def test_tpu_experimental(self, name):
    # FTRL, Adam, ... all take a learning rate and check what they are given.
    parameters = getattr(tf.compat.v1.tpu.experimental, name)(0.25)
    self.assertEqual(parameters.learning_rate, 0.25)
    with self.assertRaises(ValueError):
      getattr(tf.compat.v1.tpu.experimental, name)(
        0.25, use_gradient_accumulation=False, clip_gradient_max=1.0
      )


class WheelTest(absltest.TestCase):
  def test_every_name_that_the_wheel_uses_exists(self):
    """Imports each module, and looks up each tf.x.y of its source."""
    modules = _wheel_modules()
    self.assertGreater(len(modules), 80)
    missing = {
      f"{os.path.basename(module.__file__)}: {name}"
      for module in modules
      for name in _missing_names(module)
    }
    self.assertEmpty(missing)


if __name__ == "__main__":
  absltest.main()
