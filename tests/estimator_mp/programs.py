"""Training graphs, plain and sharded, run step by step in a session.

Without an Estimator a graph is built and compared in a second, gradients too.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import estimator_mp
from estimator_mp.comparison import training_graph, whole_variables
from estimator_mp.planning import sharding_plan
from tests.estimator_mp import session_configs
from tests.estimator_mp.models import registry

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
# As many slices as a mesh makes fit into the smallest one.
OPEN_SIZES, STATIC_SIZES = (24, 25, 17), (24, 24, 24)


@dataclasses.dataclass(frozen=True)
class Step(training_graph.Step):
  """What a step gave, and what else was asked for."""

  fetched: Any = None


def slices_of(variable, value):
  """Returns the values of the parts of a whole variable."""
  if len(variable.parts) == 1:
    return [value]
  sizes = [part.shape.as_list()[variable.axis] for part in variable.parts]
  return [*np.split(value, np.cumsum(sizes)[:-1], variable.axis)]


class Program:
  """A model_fn's training graph in a session of its own.

  No MonitoredSession, no checkpoint and no request for gradients that the
  library answers: what is compared must not rest on what it is compared with.
  The gradients are those that model_fn gives to an optimizer, or gets from
  `tf.gradients`.

  Attributes:
    graph: The graph.
    spec: What model_fn returned.
    gradients: The gradients of variables, by their names.
    inputs: The placeholders of features and labels, in a row.
    session: The session.
    session_config: Its configuration.
  """

  def __init__(
    self,
    model_fn,
    config,
    batch,
    params=None,
    is_static=False,
    seed=11,
    hooks=(),
    session_config=None,
  ):
    """Builds the graph.

    Args:
      model_fn: The model_fn, not sharded.
      config: How to shard it; None for a plain graph.
      batch: Features and labels like those of the steps.
      params: Its params, if it takes some.
      is_static: Whether the graph knows the number of examples.
      seed: The seed of the graph.
      hooks: A user's hooks: they may make ops in `begin`.
      session_config: What a user says of sessions.
    """
    options = {
      "tf_random_seed": seed,
      "session_config": session_config or session_configs.default(),
    }
    run_config = tf.estimator.RunConfig(**options)
    if config is not None:
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
      run_config = estimator_mp.run_config(config, **options)
    self.session_config = run_config.session_config
    inputs = tf.nest.map_structure(
      lambda value: tf.TensorSpec(
        value.shape if is_static else (None, *value.shape[1:]), value.dtype
      ),
      batch,
    )
    self._built = training_graph.TrainingGraph(
      model_fn, inputs, run_config, params, _recorded_gradients
    )
    self.graph = self._built.graph
    self.spec = self._built.spec
    self.gradients = self._built.gradients
    self.inputs = self._built.inputs
    with self.graph.as_default():
      self._start(hooks)

  def _start(self, hooks):
    """Does what a MonitoredSession does, without a checkpoint."""
    hooks = (*hooks, *self.spec.training_hooks)
    for hook in hooks:
      hook.begin()
    self._variables = whole_variables.by_name(v1.global_variables())
    self._mirrors = _reads_of_mirrors(self.graph)
    scaffold = self.spec.scaffold
    scaffold.finalize()
    self.session = v1.Session(config=self.session_config)
    self.session.run(scaffold.init_op)
    self.session.run(scaffold.local_init_op)
    for hook in hooks:
      hook.after_create_session(self.session, None)

  def variables(self):
    """Returns every variable."""
    parts = self.session.run({k: x.parts for k, x in self._variables.items()})
    return whole_variables.joined(self._variables, parts)

  def mirrors(self):
    """Returns what each replica has of each mirrored variable."""
    return self.session.run(self._mirrors)

  def load(self, values):
    """Sets variables."""
    for name, value in values.items():
      variable = self._variables[name]
      parts = zip(variable.parts, slices_of(variable, value), strict=True)
      with self._built.graph.as_default():
        for part, own in parts:
          part.load(own, self.session)

  def run(self, fetches, batch):
    """Runs some ops alone."""
    return self.session.run(fetches, self._feed(batch))

  def _feed(self, batch):
    return self._built.feed(tf.nest.flatten(batch))

  def step(self, batch, fetches=None):
    """Trains on a batch; also gets tensors of the step."""
    wanted = {} if fetches is None else fetches
    fetched, found = self.session.run(
      [wanted, self._built.fetches()], self._feed(batch)
    )
    step = Step.of(found, self.variables())
    return dataclasses.replace(step, fetched=fetched)

  def trace(self, batch):
    """Trains on a batch; returns the metadata of the run, with its graphs."""
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    feed = self._feed(batch)
    self.session.run(self.spec.train_op, feed, options, metadata)
    return metadata


def plain_and_sharded(model_fn, config, batch, **program):
  """Returns a plain program and a sharded one, with the same variables.

  Args:
    model_fn: The model_fn, not sharded.
    config: How to shard it.
    batch: Features and labels like those of the steps.
    **program: What else a `Program` is told.
  """
  plain, sharded = (
    Program(model_fn, x, batch, **program) for x in (None, config)
  )
  sharded.load(plain.variables())
  return plain, sharded


def _reads_of_mirrors(graph):
  """Returns ops that read each mirrored variable, and then its mirrors."""
  values = {}
  plan = sharding_plan.get_plan(graph)
  mirrors = plan.mirrors.items() if plan is not None else ()
  for name, names in mirrors:
    variable = graph.get_operation_by_name(name)
    handles = [variable.outputs[0], *map(graph.get_tensor_by_name, names)]
    if handles[0].dtype == tf.resource:
      dtype = tf.dtypes.as_dtype(variable.get_attr("dtype"))
      handles = [
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        for handle in handles
      ]
    values[name] = handles
  return values


def assert_equal_mirrors(test, program):
  """Asserts that all replicas have the same bits of some variables.

  Args:
    test: The test.
    program: The program.

  Returns:
    How many further replicas have a copy, by the names of variables.
  """
  found = program.mirrors()
  test.assertNotEmpty(found)
  for name, (first, *others) in found.items():
    for other in others:
      np.testing.assert_array_equal(first, other, err_msg=name)
  return {name: len(values) - 1 for name, values in found.items()}


@contextlib.contextmanager
def _recorded_gradients(graph):
  """Yields gradients as model_fn sees them, by their variables' names."""
  del graph
  recorded = {}

  def record(variables, gradients):
    for variable, gradient in zip(variables, gradients, strict=True):
      if gradient is not None:
        recorded[variable.op.name] = training_graph.read_of(gradient)

  def recording(apply):
    def apply_gradients(optimizer, grads_and_vars, *args, **kwargs):
      pairs = [*grads_and_vars]
      gradients, variables = zip(*pairs, strict=True)
      record(variables, gradients)
      return apply(optimizer, pairs, *args, **kwargs)

    return apply_gradients

  def gradients(ys, xs, *args, **kwargs):
    found = original(ys, xs, *args, **kwargs)
    if all(isinstance(x, tf.Variable) for x in xs):
      record(xs, found)
    return found

  original = tf.gradients
  with contextlib.ExitStack() as stack:
    for owner in _optimizers():
      patched = recording(owner.apply_gradients)
      stack.enter_context(mock.patch.object(owner, "apply_gradients", patched))
    stack.enter_context(mock.patch.object(tf, "gradients", gradients))
    yield recorded


def _optimizers():
  """Yields the classes of optimizers that say how gradients are applied."""
  found = [v1.train.Optimizer, tf.keras.optimizers.legacy.Optimizer]
  for one in found:
    found.extend(one.__subclasses__())
    if "apply_gradients" in vars(one):
      yield one


def examples(batch, start, stop):
  """Returns some examples of a batch."""
  return tf.nest.map_structure(lambda value: value[start:stop], batch)


def gradient_differences(found, expected, terms):
  """Returns how far gradients are apart, for the largest element of each.

  Args:
    found: Gradients by the names of variables.
    expected: What they are to be.
    terms: Gradients of single examples: where these cancel out in a batch,
      their size is that of the rounding errors, not the size of the sum.
  """
  largest = max(np.abs(g).max() for g in expected.values())
  differences = {}
  for name, gradient in expected.items():
    scale = max(
      # A gradient that is zero but for rounding has terms that are, too.
      1e-3 * largest,
      np.abs(gradient).max(),
      *(np.abs(term[name]).max() for term in terms),
    )
    differences[name] = np.abs(found[name] - gradient).max() / scale
  return differences


def assert_same_gradients(test, found, expected, terms, rtol=1e-6):
  """Asserts that gradients are equal, for the largest element of each.

  Args:
    test: The test.
    found: Gradients by the names of variables.
    expected: What they are to be.
    terms: As for `gradient_differences`.
    rtol: The difference that is allowed.
  """
  test.assertCountEqual(found, expected)
  differences = gradient_differences(found, expected, terms)
  for name, difference in differences.items():
    test.assertEqual(found[name].shape, expected[name].shape, name)
    # Not assertLessEqual: a difference may be no number.
    test.assertTrue(difference <= rtol, f"{name}: {difference}")


def assert_same_variables(test, found, expected, rtol=1e-6, but=()):
  """Asserts that variables are equal, for the largest element of each."""
  test.assertCountEqual(found, expected)
  for name, value in expected.items():
    if name not in but:
      scale = max(np.abs(value).max(), 1e-3)
      np.testing.assert_allclose(
        found[name] / scale, value / scale, rtol=0, atol=rtol, err_msg=name
      )


def assert_same_steps(test, plain, sharded, batches, rtol=1e-5, loads=True):
  """Asserts that both programs train alike; returns the last step.

  Args:
    test: The test.
    plain: The plain program, from whose variables both go on.
    sharded: The sharded one.
    batches: A batch for each step.
    rtol: The difference that is allowed of losses, gradients and variables.
    loads: Whether the sharded one gets the plain one's variables first. Where
      they go on from what they have, what they should have is tested, too.
  """
  if loads:
    sharded.load(plain.variables())
  for batch in batches:
    step, expected = sharded.step(batch), plain.step(batch)
    np.testing.assert_allclose(step.loss, expected.loss, rtol=rtol)
    assert_same_gradients(test, step.gradients, expected.gradients, [], rtol)
    assert_same_variables(test, step.variables, expected.variables, rtol)
  return step


@dataclasses.dataclass(frozen=True)
class PlainRun:
  """What a model does on one device.

  Attributes:
    start: All variables at the start.
    steps: The steps from there.
    terms: Gradients of single examples at the start.
  """

  start: dict[str, np.ndarray]
  steps: list[Step]
  terms: list[dict[str, np.ndarray]]


def batches_of(model: registry.Model, sizes: Sequence[int]) -> Iterator[Any]:
  """Yields a batch of each size, each from five examples further on."""
  total = len(tf.nest.flatten(model.batch)[0])
  for i, size in enumerate(sizes):
    start = 5 * i % (total - size + 1)
    yield examples(model.batch, start, start + size)


@functools.cache
def _plain_program(model: registry.Model) -> tuple[Program, PlainRun]:
  """Returns a model's plain program, and what it does before all steps."""
  program = Program(
    model.model_fn, None, examples(model.batch, 0, 24), model.params
  )
  start, terms = program.variables(), []
  for i in range(4):
    terms.append(program.step(examples(model.batch, i, i + 1)).gradients)
    program.load(start)
  return program, PlainRun(start, [], terms)


@functools.cache
def plain_run(
  model: registry.Model, sizes: tuple[int, ...] = OPEN_SIZES
) -> PlainRun:
  """Trains a model plain, once in a process for all that compare with it.

  Args:
    model: The model.
    sizes: Those of the batches.
  """
  program, run = _plain_program(model)
  program.load(run.start)
  steps = [program.step(batch) for batch in batches_of(model, sizes)]
  return dataclasses.replace(run, steps=steps)


def assert_as_plain(
  test,
  model: registry.Model,
  config,
  sizes: tuple[int, ...] = OPEN_SIZES,
  rtol: float = 1e-5,
  but=(),
  starts_alike: bool = False,
  **program: Any,
) -> Program:
  """Asserts that a model sharded trains as it does plain.

  That is each step's loss, the gradients of the first step, and variables
  after each one.

  Args:
    test: The test.
    model: The model.
    config: How to shard it.
    sizes: Those of the batches.
    rtol: The difference that is allowed of variables.
    but: Variables that are not compared.
    starts_alike: Whether both begin with the same values by themselves, as
      without layers that draw seeds.
    **program: What else a `Program` is told.

  Returns:
    The sharded program.
  """
  sharded = Program(
    model.model_fn,
    config,
    examples(model.batch, 0, 24),
    model.params,
    **program,
  )
  plain = plain_run(model, sizes)
  if starts_alike:
    assert_same_variables(test, sharded.variables(), plain.start, rtol=0)
  sharded.load(plain.start)
  for i, (batch, expected) in enumerate(
    zip(batches_of(model, sizes), plain.steps, strict=True)
  ):
    step = sharded.step(batch)
    np.testing.assert_allclose(step.loss, expected.loss, rtol=1e-5)
    if i == 0:
      assert_same_gradients(
        test, step.gradients, expected.gradients, plain.terms, 1e-5
      )
    assert_same_variables(test, step.variables, expected.variables, rtol, but)
  return sharded
