"""A model_fn's training graph, built outside of an Estimator to be compared.

The batches are fed, so that several graphs can train on the same ones. All
else is as an Estimator does it: the seed, the Scaffold, the training hooks.
"""

import contextlib
import dataclasses
import functools
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from compat.private import gradient_requests
from estimator_mp.comparison import cancelling, draws, whole_variables
from estimator_mp.graph import traversal

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
_TRAIN = tf.estimator.ModeKeys.TRAIN


@dataclasses.dataclass(frozen=True)
class Batches:
  """Batches of an input_fn.

  Attributes:
    inputs: Features and labels as the input_fn gives them: tensors of a graph
      of their own, dense, sparse and ragged, nested.
    values: For each batch, the values of their components.
  """

  inputs: tuple[Any, Any]
  values: tuple[Sequence[np.ndarray], ...]


def read_batches(
  input_fn: Callable[..., Any],
  count: int,
  run_config: tf.estimator.RunConfig,
  params: Mapping[str, Any] | None,
) -> Batches:
  """Returns the first batches of an input_fn.

  Args:
    input_fn: An input_fn of an Estimator.
    count: How many; fewer if it ends before. With 0, no session runs.
    run_config: Its `config`, if it takes one, and the seed.
    params: Its `params`, if it takes some.
  """
  with tf.Graph().as_default(), _seeded(run_config):
    features, labels = _call_input_fn(input_fn, run_config, params)
    components = tf.nest.flatten((features, labels), expand_composites=True)
    tensors = list(filter(tf.is_tensor, components))
    values: list[list[np.ndarray]] = []
    if not count:
      return Batches((features, labels), ())
    # Input is the host's: GPUs are left to the model.
    on_host = v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    with v1.train.SingularMonitoredSession(config=on_host) as session:
      while len(values) < count and not session.should_stop():
        try:
          values.append(session.run(tensors))
        except tf.errors.OutOfRangeError:
          break
    return Batches((features, labels), tuple(values))


def placeholders(inputs: tuple[Any, Any]) -> tuple[Any, Any, list[tf.Tensor]]:
  """Returns features and labels that are fed, and what is fed of them.

  Args:
    inputs: Features and labels, as in `Batches`, or their specs. What is no
      tensor stays, such as a number.
  """
  flat = [
    v1.placeholder(x.dtype, x.shape)
    if isinstance(x, tf.Tensor | tf.TensorSpec)
    else x
    for x in tf.nest.flatten(inputs, expand_composites=True)
  ]
  features, labels = tf.nest.pack_sequence_as(
    inputs, flat, expand_composites=True
  )
  return features, labels, list(filter(tf.is_tensor, flat))


def _call_input_fn(
  input_fn: Callable[..., Any],
  run_config: tf.estimator.RunConfig,
  params: Mapping[str, Any] | None,
) -> tuple[Any, Any]:
  """Returns features and labels of the default graph."""
  v1.train.create_global_step()
  arguments = {"mode": _TRAIN, "config": run_config, "params": params}
  result = input_fn(**accepted(input_fn, arguments))
  if isinstance(result, tf.data.Dataset | v1.data.Dataset):
    iterator = v1.data.make_initializable_iterator(result)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    result = iterator.get_next()
  is_pair = isinstance(result, list | tuple) and len(result) == 2
  return tuple(result) if is_pair else (result, None)


@contextlib.contextmanager
def requested_gradients(graph: tf.Graph) -> Iterator[Mapping[str, Any]]:
  """Yields the gradients of variables that are asked for, by their names.

  Of one that is asked for repeatedly, the last counts.

  Args:
    graph: Where they are asked for.
  """
  by_variable: dict[str, Any] = {}

  def record(sources: list[Any], gradients: list[Any]) -> None:
    names = {v.op.name for v in v1.global_variables()}
    for source, gradient in zip(sources, gradients, strict=True):
      # An optimizer asks for a reference variable by its reference.
      name = getattr(source, "handle", source).op.name
      if name in names and _can_be_fetched(gradient):
        by_variable[name] = read_of(gradient)

  with gradient_requests.observed(graph, record):
    yield by_variable


def read_of(gradient: Any) -> Any:
  """Returns a read of a gradient, for sessions to fetch.

  If the model is sharded, readers of the gradient get its stand-in; a fetch of
  its own name is the plain model's.

  Args:
    gradient: Dense or sparse, while model_fn is called.
  """

  def read(tensor: tf.Tensor) -> tf.Tensor:
    # It may be asked for, or applied, in a function.
    with (
      tensor.graph.as_default(),
      tf.control_dependencies(None),
      v1.name_scope("gradients_to_compare/"),
    ):
      return tf.identity(tensor)

  return tf.nest.map_structure(read, gradient, expand_composites=True)


# While a graph is built: its gradients, by their variables' names.
Recorder: TypeAlias = Callable[
  [tf.Graph], contextlib.AbstractContextManager[Mapping[str, Any]]
]


class TrainingGraph:
  """A model_fn's training graph.

  Attributes:
    graph: The graph.
    spec: The spec that model_fn returned.
    gradients: The gradients of variables, by their names.
    variables: All global variables, by the names that the plain model has.
    reads: Their values, or those of their shards, by the same names.
    inputs: Placeholders for the components of features and labels.
  """

  def __init__(
    self,
    model_fn: Callable[..., tf.estimator.EstimatorSpec],
    inputs: tuple[Any, Any],
    run_config: tf.estimator.RunConfig,
    params: Mapping[str, Any] | None = None,
    recorder: Recorder = requested_gradients,
  ):
    """Builds the graph.

    Args:
      model_fn: The model_fn.
      inputs: Features and labels, as in `Batches`, or their specs.
      run_config: Its `config`, if it takes one, and the seed.
      params: Its `params`, if it takes some.
      recorder: Says which gradients count: those that model_fn gets.
    """
    self._run_config = run_config
    self.graph = tf.Graph()
    with self.graph.as_default(), _seeded(run_config):
      v1.train.create_global_step()
      features, labels, self.inputs = placeholders(inputs)
      arguments = {"mode": _TRAIN, "config": run_config, "params": params}
      if "labels" in inspect.signature(model_fn).parameters:
        arguments["labels"] = labels
      with recorder(self.graph) as self.gradients:
        self.spec = model_fn(features, **accepted(model_fn, arguments))
      self.variables = whole_variables.by_name(v1.global_variables())
      # New reads: the read of a variable itself was made with it, before it was
      # split.
      self.reads = {
        name: tuple(part.read_value() for part in variable.parts)
        for name, variable in self.variables.items()
      }

  @functools.cached_property
  def saver(self) -> tf.compat.v1.train.Saver:
    """A saver of all variables, which makes ops."""
    return v1.train.Saver(
      [
        *(part for x in self.variables.values() for part in x.parts),
        *v1.get_collection("saveable_objects"),
      ],
      max_to_keep=None,
      allow_empty=True,
    )

  def fetches(self) -> list[Any]:
    """Returns the fetches of a step, for `Step.of`."""
    gradients = {
      name: (x.values, x.indices) if isinstance(x, tf.IndexedSlices) else x
      for name, x in self.gradients.items()
    }
    return [self.spec.loss, gradients, self.spec.train_op]

  @property
  def ops(self) -> set[tf.Operation]:
    """The ops that a step runs."""
    return traversal.ops_run_with(self.spec.train_op, self.spec.loss)

  @functools.cached_property
  def rounding(self) -> dict[str, tf.Tensor]:
    """The rounding of gradients that are sums, by the variables' names."""
    with self.graph.as_default():
      found = {
        name: cancelling.rounding(gradient)
        for name, gradient in self.gradients.items()
        if isinstance(gradient, tf.Tensor)
      }
    return {name: x for name, x in found.items() if x is not None}

  @functools.cached_property
  def draws(self) -> dict[str, tf.Tensor]:
    """The checksums of what random ops of a step draw, by the ops' names."""
    with self.graph.as_default():
      return draws.checksums(self.ops)

  def feed(self, values: Iterable[np.ndarray]) -> dict[tf.Tensor, np.ndarray]:
    """Returns the feed of a step.

    Args:
      values: One of `Batches.values`.
    """
    return dict(zip(self.inputs, values, strict=True))

  def initialize(self, path: str) -> str:
    """Initializes all variables, and saves them; returns the checkpoint.

    Args:
      path: The beginning of its name.
    """
    with self.graph.as_default():
      session = self._creator(None).create_session()
      with session:
        return str(self.saver.save(session, path, write_meta_graph=False))

  def start(self, checkpoint: str, others: Sequence[str] = ()) -> "TrainingRun":
    """Starts to train from a checkpoint, with the hooks of the spec.

    Args:
      checkpoint: The path of the checkpoint, with all variables.
      others: The names of other fields of `Step` that each step is to have.
    """
    spec = self.spec
    fetched = {name: getattr(self, name) for name in others}
    with self.graph.as_default():
      session = v1.train.MonitoredSession(
        self._creator(checkpoint),
        [*spec.training_chief_hooks, *spec.training_hooks],
      )
    return TrainingRun(self, session, fetched)

  def _creator(
    self, checkpoint: str | None
  ) -> tf.compat.v1.train.SessionCreator:
    scaffold = self.spec.scaffold or v1.train.Scaffold()
    # Its own saver may leave variables out, or swap them with their averages.
    with_saver = v1.train.Scaffold(
      saver=self.saver, copy_from_scaffold=scaffold
    )
    return v1.train.ChiefSessionCreator(
      with_saver,
      config=self._run_config.session_config,
      checkpoint_filename_with_path=checkpoint,
    )


@dataclasses.dataclass(frozen=True)
class Step:
  """The results of a training step.

  Attributes:
    loss: The loss.
    gradients: The gradients of variables, dense, by the variables' names.
    variables: All variables after the step, by their names.
    rounding: As `TrainingGraph.rounding`, if it was asked for.
    draws: As `TrainingGraph.draws`, if it was asked for.
  """

  loss: float
  gradients: Mapping[str, np.ndarray]
  variables: Mapping[str, np.ndarray]
  rounding: Mapping[str, float] = dataclasses.field(default_factory=dict)
  draws: Mapping[str, int] = dataclasses.field(default_factory=dict)

  @classmethod
  def of(
    cls,
    fetched: Sequence[Any],
    variables: Mapping[str, np.ndarray],
    others: Mapping[str, Any] = MappingProxyType({}),
  ) -> "Step":
    """Returns the results in the values of fetches.

    Args:
      fetched: The values of `TrainingGraph.fetches`.
      variables: All variables after the step, by their names.
      others: The other fields by name, if they were asked for.
    """
    loss, gradients, _ = fetched
    dense = {name: _dense(x, variables[name]) for name, x in gradients.items()}
    return cls(float(loss), dense, variables, **others)


@dataclasses.dataclass(frozen=True)
class TrainingRun:
  """A training graph in a session, as `TrainingGraph.start` makes it.

  Attributes:
    graph: The graph.
    session: Its session.
    others: Other fields of `Step` by name, as the graph has them.
  """

  graph: TrainingGraph
  session: tf.compat.v1.train.MonitoredSession
  others: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def step(self, values: Sequence[np.ndarray]) -> Step:
    """Trains on a batch.

    Args:
      values: One of `Batches.values`.
    """
    fetched, others = self.session.run(
      [self.graph.fetches(), dict(self.others)], self.graph.feed(values)
    )
    reads = self.graph.reads
    parts = self._run_without_hooks(lambda session: session.run(reads))
    variables = whole_variables.joined(self.graph.variables, parts)
    return Step.of(fetched, variables, others)

  def save(self, path: str) -> str:
    """Saves all variables; returns the checkpoint.

    Args:
      path: The beginning of its name.
    """
    with self.graph.graph.as_default():
      saved = self._run_without_hooks(
        lambda session: self.graph.saver.save(
          session, path, write_meta_graph=False
        )
      )
    return str(saved)

  def _run_without_hooks(
    self, function: Callable[[tf.compat.v1.Session], Any]
  ) -> Any:
    return self.session.run_step_fn(
      lambda step_context: function(step_context.session)
    )

  def is_over(self) -> bool:
    """Whether a hook has asked to stop."""
    return bool(self.session.should_stop())

  def close(self) -> None:
    """Ends the session, with the ends of its hooks."""
    self.session.close()


def _can_be_fetched(gradient: Any) -> bool:
  parts = tf.nest.flatten(gradient, expand_composites=True)
  return all(x is not None and x.graph.is_fetchable(x) for x in parts)


def _dense(gradient: Any, variable: np.ndarray) -> np.ndarray:
  if not isinstance(gradient, tuple):
    return gradient
  values, indices = gradient
  total = np.zeros(np.shape(variable), values.dtype)
  np.add.at(total, indices, values)
  return total


def accepted(
  function: Callable[..., Any], given: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns those arguments that a function takes.

  Args:
    function: An input_fn or a model_fn.
    given: The arguments.
  """
  names = inspect.signature(function).parameters
  return {name: value for name, value in given.items() if name in names}


@contextlib.contextmanager
def _seeded(run_config: tf.estimator.RunConfig) -> Iterator[None]:
  """Gives the default graph its seed, and layers that draw seeds from Python.

  Python's and numpy's own random numbers go on afterwards as if nothing had
  been; layers of tf_keras stay seeded.
  """
  states = random.getstate(), np.random.get_state()
  seed = run_config.tf_random_seed
  tf.keras.utils.set_random_seed(1 if seed is None else seed)
  try:
    yield
  finally:
    random.setstate(states[0])
    np.random.set_state(states[1])
