"""Input by task: each task reads its own part of the data.

tf.estimator's convention for several machines: an input_fn that takes an
argument `input_context` says which part of the data is whose,

    def input_fn(input_context=None):
      dataset = tf.data.Dataset.list_files("data/*", shuffle=False)
      batch_size = 64
      if input_context:
        dataset = dataset.shard(
          input_context.num_input_pipelines, input_context.input_pipeline_id
        )
        batch_size = input_context.get_per_replica_batch_size(batch_size)
      return dataset.interleave(read).batch(batch_size, drop_remainder=True)

and returns batches for one replica. It is called once for each task that begins
replicas (that has their stage 0), and its Dataset is read there: one batch for
each of the task's replicas in a step. The batch of the step is the concat of
all, in the order of the replicas.

`tf.distribute.MirroredStrategy` gives the same context and reads in the same
way. An input_fn without that argument is read by the chief, which feeds all.
"""

import dataclasses
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from compat.private import estimators
from estimator_mp import devices, mesh
from estimator_mp.capture import input_pieces
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config import sharding_config, sharding_options
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import functions

import tensorflow as tf

v1 = tf.compat.v1

_CONTEXT = "input_context"


@dataclasses.dataclass(frozen=True)
class Pipeline:
  """A part of the data, and who reads it.

  Attributes:
    host: The device that reads it.
    replicas: The replicas that get its batches, in their order.
  """

  host: str
  replicas: tuple[int, ...]

  def __str__(self) -> str:
    named = ", ".join(map(str, self.replicas))
    where = devices.task_of(self.host) or "this task"
    return f"replica(s) {named} from {where}"


def pipelines_of(over: mesh.Mesh) -> tuple[Pipeline, ...]:
  """Returns who reads: each task that has stage 0 of a replica.

  Args:
    over: The mesh.

  Returns:
    Pipelines in the order of the first replicas that they feed.
  """
  replicas: dict[str, list[int]] = {}
  for replica in range(over.axis_size("data")):
    host = devices.host_of(over.device(data=replica, stage=0))
    replicas.setdefault(host, []).append(replica)
  return tuple(Pipeline(host, tuple(of)) for host, of in replicas.items())


def without_tf_config(input_fn: Callable[..., Any]) -> Callable[..., Any]:
  """Returns an input_fn that is called without TF_CONFIG, as in one process.

  Where one mesh spans the tasks, the chief's input is all of the input. An
  input_fn that reads TF_CONFIG, as is usual where each worker has a model of
  its own, would leave out the supposed part of the others, and nothing would
  fail.

  Args:
    input_fn: The input_fn; the result takes the same arguments.
  """

  def alone(*args: Any, **kwargs: Any) -> Any:
    tf_config = os.environ.pop(tasks_lib.VARIABLE, None)
    try:
      return input_fn(*args, **kwargs)
    finally:
      if tf_config is not None:
        os.environ[tasks_lib.VARIABLE] = tf_config

  return _with_arguments(alone, estimators.arguments_of(input_fn))


def of_train_spec(
  spec: tf.estimator.TrainSpec,
  config: sharding_config.ShardingConfig,
  worker: int = 0,
  num_workers: int = 1,
) -> tf.estimator.TrainSpec:
  """Returns a TrainSpec whose tasks read their own parts of the data.

  Args:
    spec: The TrainSpec. It is returned as it is if its input_fn does not
      take an `input_context`, and for Horovod's processes, each of which knows
      itself which one it is.
    config: How the model is sharded.
    worker: The number of this worker, where each has a model of its own, as
      they have beside parameter servers.
    num_workers: How many workers have a model of their own.

  Raises:
    ValueError: When a graph is made: if input_fn returns no Dataset, one that
      another task cannot read, others for other tasks, or something without
      examples.
  """
  if _CONTEXT not in estimators.arguments_of(spec.input_fn):
    return spec
  if config.aggregation == sharding_options.HOROVOD:
    return spec
  reader = _InputByTask(spec.input_fn, config, worker, num_workers)
  return spec._replace(
    input_fn=reader.as_input_fn(), hooks=(reader, *spec.hooks)
  )


class _InputByTask(tf.estimator.SessionRunHook):
  """Makes the input of a graph, and begins it in each session."""

  def __init__(
    self,
    input_fn: Callable[..., Any],
    config: sharding_config.ShardingConfig,
    worker: int,
    num_workers: int,
  ):
    self._input_fn = input_fn
    self._batch_axis: Sequence[sharding_options.BatchAxis] = config.batch_axis
    self._pipelines = pipelines_of(config.create_mesh())
    count = len(self._pipelines)
    replicas = sum(len(pipeline.replicas) for pipeline in self._pipelines)
    self._contexts = [
      tf.distribute.InputContext(num_workers * count, number, replicas)
      for number in range(worker * count, (worker + 1) * count)
    ]
    # The names of ops, as an op would keep its graph.
    self._initializers: weakref.WeakKeyDictionary[tf.Graph, list[str]] = (
      weakref.WeakKeyDictionary()
    )

  def as_input_fn(self) -> Callable[..., Any]:
    """Returns an input_fn that takes the other arguments of the original."""

    def by_task(**arguments: Any) -> Any:
      return self._make(arguments)

    names = estimators.arguments_of(self._input_fn)
    return _with_arguments(
      by_task, (x for x in names if x in ("mode", "params", "config"))
    )

  def _make(self, arguments: dict[str, Any]) -> Any:
    """Returns features and labels of the whole batch."""
    num_replicas = self._contexts[0].num_replicas_in_sync
    if num_replicas == 1:
      # As without replicas: an Estimator reads it.
      arguments[_CONTEXT] = self._contexts[0]
      return self._input_fn(**arguments)
    batches: list[Any] = [None] * num_replicas
    spec: Any = None
    for pipeline, context in zip(self._pipelines, self._contexts, strict=True):
      dataset = self._dataset(pipeline, arguments | {_CONTEXT: context})
      if spec is None:
        spec = dataset.element_spec
      _check_same(spec, dataset.element_spec, context)
      with v1.device(pipeline.host):
        elements = self._read(dataset, len(pipeline.replicas))
      for replica, element in zip(pipeline.replicas, elements, strict=True):
        batches[replica] = _features_and_labels(element)
    joined = input_pieces.join(batches, self._batch_axis)
    v1.logging.info(
      "Input: a batch is %s, one after another",
      "; ".join(map(str, self._pipelines)),
    )
    return joined["features"], joined["labels"]

  def _dataset(
    self, pipeline: Pipeline, arguments: dict[str, Any]
  ) -> tf.data.Dataset:
    """Returns the Dataset of a pipeline, made where it is read."""
    graph = v1.get_default_graph()
    num_ops = len(graph.get_operations())
    with v1.device(pipeline.host):
      dataset = self._input_fn(**arguments)
    if not isinstance(dataset, tf.data.Dataset):
      raise ValueError(
        f"input_fn takes {_CONTEXT}, but returned {dataset!r}; return a "
        "tf.data.Dataset of batches for one replica, which each task reads, or "
        f"leave {_CONTEXT} out of its arguments"
      )
    if not _is_here(pipeline.host):
      _check_no_python(graph.get_operations()[num_ops:], pipeline)
    return dataset

  def _read(self, dataset: tf.data.Dataset, count: int) -> list[Any]:
    """Returns the next elements of a Dataset, in their order."""
    iterator = v1.data.make_initializable_iterator(dataset)
    graph = v1.get_default_graph()
    self._initializers.setdefault(graph, []).append(iterator.initializer.name)
    elements: list[Any] = []
    for _ in range(count):
      last = tf.nest.flatten(elements[-1:], expand_composites=True)[:1]
      with tf.control_dependencies(last):
        elements.append(iterator.get_next())
    return elements

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    """Begins the input, before other hooks go on where it has been."""
    graph = session.graph
    names = self._initializers.get(graph, ())
    session.run([graph.get_operation_by_name(name) for name in names])


def _with_arguments(
  function: Callable[..., Any], names: Iterable[str]
) -> Callable[..., Any]:
  """Lets an Estimator, which looks at arguments, find these of a function."""
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  vars(function)["__signature__"] = inspect.Signature(
    [inspect.Parameter(name, kind) for name in names]
  )
  return function


def _is_here(host: str) -> bool:
  """Whether a device is of this task."""
  cluster = tasks_lib.from_environment()
  prefix = "" if cluster is None else cluster.task.device_prefix
  return devices.task_of(host) in ("", prefix)


def _features_and_labels(element: Any) -> dict[str, Any]:
  """Returns an element of a Dataset, by the names of its parts."""
  if not isinstance(element, list | tuple):
    return {"features": element, "labels": None}
  if len(element) != 2:
    raise ValueError(
      f"the Dataset of input_fn has elements of {len(element)} parts; let them "
      "be (features, labels), or features alone in a dict"
    )
  return {"features": element[0], "labels": element[1]}


def _check_same(
  spec: Any, other: Any, context: tf.distribute.InputContext
) -> None:
  """Raises if two pipelines give different things."""

  def kinds(of: Any) -> Any:
    return tf.nest.map_structure(
      lambda x: (type(x).__name__, x.dtype, x.shape.rank), of
    )

  if kinds(other) != kinds(spec):
    raise ValueError(
      f"input_fn returned a Dataset of {spec} for input pipeline 0, but of "
      f"{other} for pipeline {context.input_pipeline_id}; return the same "
      f"structure and dtypes for each {_CONTEXT}"
    )


def _check_no_python(ops: Sequence[tf.Operation], pipeline: Pipeline) -> None:
  """Raises if another task would have to call this process's Python."""
  for op in ops:
    if functions.any_op(op, lambda kind: kind in op_types.CALLS_PYTHON):
      raise ValueError(
        f"input_fn makes {op.name!r}, which calls Python (as from_generator, "
        "py_function and numpy_function do), and the Python of this process is "
        f"not in {devices.task_of(pipeline.host)}; use tf.data ops alone, or "
        f"leave {_CONTEXT} out of input_fn's arguments and the chief reads it"
      )
