"""Packages from PyPI, unedited, train on a model axis to the plain losses.

packages.py says how to install them. Then

    TESTBRIDGE_TEST_ONLY=bert \\
        python -m tests.estimator_mp.equality.packages_model_axis_test

prints a line for each mesh and number of micro-batches. Two plain runs that
differ by rounding alone drift apart as well; a line says how far: those of
batches whose examples are in another order, and of weights that are changed in
their last bit.
"""

import dataclasses
import functools
import os
import tempfile
import zlib
from typing import Any

import estimator_mp
from tests.estimator_mp import programs
from tests.estimator_mp.equality import packages

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_STEPS, _BATCH = 20, 32
_MOST = 1e-5
# Those with a model axis, and one that splits tables over replicas.
_MESHES = (
  *("model:2", "model:3", "model:4", "data:2,model:2", "stage:2,model:2"),
  "data:2",
)
_CASES = [
  (f"{mesh}_M{m}".replace(":", "").replace(",", "_"), mesh, m)
  for mesh in _MESHES
  for m in (1, 4)
]


@dataclasses.dataclass(frozen=True)
class _Plain:
  """A plain model and how it trains.

  Attributes:
    package: The model.
    program: Its graph.
    start: All variables at the start.
    batches: The batches.
    steps: The steps.
    terms: For each step, gradients of single examples of its batch.
  """

  package: packages.Package
  program: programs.Program
  start: dict[str, np.ndarray]
  batches: list[Any]
  steps: list[programs.Step]
  terms: list[list[dict[str, np.ndarray]]]

  def difference(self, losses):
    """Returns the largest difference of losses, relative to the plain ones."""
    return np.max(np.abs(np.divide(losses, [x.loss for x in self.steps]) - 1))

  @functools.cached_property
  def checkpoint(self):
    """The path of a checkpoint of the start."""
    self.program.load(self.start)
    return _save(self.program)

  @functools.cached_property
  def drift(self):
    """How far plain runs that differ by rounding alone are from this one."""
    found = []
    for seed in range(4):
      random = np.random.RandomState(seed)
      order = random.permutation(_BATCH)
      found.append(_losses(self.program, self.start, self._ordered(order)))
      changed = {
        name: _in_last_bit(value, random) for name, value in self.start.items()
      }
      found.append(_losses(self.program, changed, self.batches))
    return max(map(self.difference, found))

  def _ordered(self, order):
    """Returns the batches with their examples in another order."""
    return tf.nest.map_structure(lambda value: value[order], self.batches)


@functools.cache
def _plain(make, change=lambda name, value: value):
  """Trains a plain model.

  Args:
    make: Makes the package.
    change: Gives the value of a variable to start from, from its name and its
      initial value.
  """
  v1.disable_v2_tensorshape()  # BERT asks a dimension for its `value`.
  package = make()
  batches = [
    programs.examples(package.batch, _BATCH * i, _BATCH * (i + 1))
    for i in range(_STEPS)
  ]
  program = _program(package, None)
  initial = program.variables()
  start = {name: change(name, value) for name, value in initial.items()}
  program.load(start)
  steps = [program.step(batch) for batch in batches]
  terms = []
  for before, batch in zip(_befores(start, steps), batches, strict=True):
    terms.append([])
    for i in range(4):
      program.load(before)
      step = program.step(programs.examples(batch, i, i + 1))
      terms[-1].append(step.gradients)
  return _Plain(package, program, start, batches, steps, terms)


def _program(package, config):
  return programs.Program(
    package.model_fn, config, package.batch, package.params
  )


def _befores(start, steps):
  """Returns the variables before each step."""
  return [start, *(step.variables for step in steps[:-1])]


def _losses(program, start, batches):
  program.load(start)
  return [program.step(batch).loss for batch in batches]


def _in_last_bit(value, random):
  """Returns a value of which each number is changed in its last bit."""
  if value.dtype.kind != "f":
    return value
  signs = random.choice([-1, 1], value.shape)
  return (value * (1 + signs * 2.0**-24)).astype(value.dtype)


def _save(program):
  """Saves with the Saver that an Estimator would take; returns the path."""
  path = os.path.join(tempfile.mkdtemp(dir=absltest.TEST_TMPDIR.value), "of")
  with program.graph.as_default():
    return program.spec.scaffold.saver.save(program.session, path)


def _contents(checkpoint):
  return dict(tf.train.list_variables(checkpoint))


def _large(name, value):
  """Returns weights with the variance of one over their inputs."""
  if value.ndim < 2 or "adam_" in name:
    return value
  random = np.random.RandomState(zlib.crc32(name.encode()))
  inputs = np.prod(value.shape[:-1])
  return random.normal(size=value.shape).astype("f") / np.sqrt(inputs)


class PackagesTest(parameterized.TestCase):
  @parameterized.named_parameters(_CASES)
  def test_bert(self, mesh, num_micro_batches):
    self.assertSame(_plain(packages.bert), mesh, num_micro_batches)

  @parameterized.named_parameters(_CASES)
  def test_deepfm(self, mesh, num_micro_batches):
    self.assertSame(_plain(packages.deepfm), mesh, num_micro_batches)

  @parameterized.named_parameters(_CASES)
  def test_xdeepfm(self, mesh, num_micro_batches):
    self.assertSame(_plain(packages.xdeepfm), mesh, num_micro_batches)

  def test_bert_with_momentum(self):
    plain = _plain(packages.bert_with_momentum)
    self.assertSame(plain, "stage:2,model:2", 4)

  def test_bert_of_large_weights(self):
    """From these, training lets differences of rounding grow a thousandfold."""
    self.assertSame(_plain(packages.bert, _large), "model:2", 4)

  def assertSame(self, plain, mesh, num_micro_batches):
    package = plain.package
    tables = ((package.tables, "div"),)
    config = estimator_mp.ShardingConfig(
      mesh,
      num_micro_batches=num_micro_batches,
      split="auto" if "model" in mesh else tables,
    )
    program = _program(package, config)
    names = [v.op.name for v in program.graph.get_collection("variables")]
    self.assertTrue(any("/part_" in name for name in names))
    with program.graph.as_default():
      program.spec.scaffold.saver.restore(program.session, plain.checkpoint)
    losses = [program.step(batch).loss for batch in plain.batches]
    self.assertEqual(_contents(_save(program)), _contents(plain.checkpoint))
    of_losses, of_gradients = self._restarted_differences(program, plain)
    found = plain.difference(losses)
    print(
      f"\n{self._testMethodName}, TensorFlow {tf.__version__}: losses "
      f"{found:.1e} after {_STEPS} steps (plain runs {plain.drift:.1e}); each "
      f"step from the plain variables: losses {of_losses:.1e}, gradients "
      f"{of_gradients:.1e}",
      flush=True,
    )
    self.assertLess(of_losses, _MOST)
    self.assertLess(of_gradients, _MOST)
    self.assertLess(found, max(_MOST, 2 * plain.drift))

  def _restarted_differences(self, program, plain):
    """Returns the largest ones where each step has the plain variables."""
    losses, differences = [], []
    befores = _befores(plain.start, plain.steps)
    for before, batch, expected, terms in zip(
      befores, plain.batches, plain.steps, plain.terms, strict=True
    ):
      program.load(before)
      step = program.step(batch)
      losses.append(step.loss)
      self.assertCountEqual(step.gradients, expected.gradients)
      of_gradients = programs.gradient_differences(
        step.gradients, expected.gradients, terms
      )
      shifts = plain.package.shifts
      differences += [
        difference
        for name, difference in of_gradients.items()
        if not (shifts and name.endswith(shifts))
      ]
    return plain.difference(losses), max(differences)


if __name__ == "__main__":
  absltest.main()
