"""Aggregation over processes: Horovod averages the gradients of each of them.

Every process holds one replica of the model, over several devices of its own;
Horovod adds the processes' gradients by ring all-reduce. Its users asked for
models that span several devices of a process in horovod/horovod#96 and #682.

Horovod: Sergeev and Del Balso, "Horovod: fast and easy distributed deep
learning in TensorFlow", 2018, arXiv:1802.05799.

A collective waits until every process has started the one of the same name.
So all processes have to build the same graph and run the same steps. Three
things here keep a process from waiting for ever:

- Collectives are named by their position in the list of gradients, or by the
  variable, in a name scope of their own.
- TensorFlow takes a collective for an op without side effects. It computes one
  of constants while it prepares a graph, which each process does when it likes,
  and makes one of two that look alike. So their inputs come through a shape
  that only the session knows.
- When a session is made, processes compare their graphs.
"""

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from estimator_mp import devices
from estimator_mp.collectives import towers
from estimator_mp.graph import device_assignment
from estimator_mp.graph.gradient import Gradient

import numpy as np
import tensorflow as tf

_GRADIENT_DTYPES = (tf.float16, tf.float32, tf.float64)
_VARIABLE_DTYPES = (
  *_GRADIENT_DTYPES,
  *(tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.bool),
)
_ROOT = 0


def load_horovod() -> ModuleType:
  """Returns the module `horovod.tensorflow`, initialised.

  Raises:
    ImportError: If it is not installed, or not for this TensorFlow.
  """
  try:
    horovod = importlib.import_module("horovod.tensorflow")
  except (ImportError, tf.errors.OpError) as error:
    reason = " ".join(str(error).split())
    raise ImportError(
      f'aggregation="horovod" needs Horovod for TensorFlow {tf.__version__}, '
      f"which cannot be imported ({reason}); install it with "
      "HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation horovod, and "
      "start the program with horovodrun -np 2 python program.py"
    ) from error
  if not horovod.is_initialized():
    horovod.init()
  return horovod


def visible_gpus(
  num_devices: int, local_rank: int, visible: str | None = None
) -> str:
  """Returns the GPUs of one process, of those of its machine.

  Set the environment variable CUDA_VISIBLE_DEVICES to it before TensorFlow
  looks for GPUs; they are gpu:0, gpu:1, ... in the process then. (A
  `visible_device_list` in a session's configuration is not enough: TensorFlow
  gives a process's GPUs their numbers once, and ops outside of sessions would
  see all of them.)

  Args:
    num_devices: How many GPUs each process has: the size of its mesh.
    local_rank: The number of the process on its machine, `hvd.local_rank()`.
    visible: The value of CUDA_VISIBLE_DEVICES, if a scheduler has set it: the
      GPUs that all processes of this machine share.

  Returns:
    Numbers or names of GPUs with commas between them: "2,3" for 2 devices and
    local rank 1.

  Raises:
    ValueError: If the numbers are out of range, or `visible` has too few.
  """
  if num_devices < 1 or local_rank < 0:
    raise ValueError(
      f"num_devices={num_devices} and local_rank={local_rank} do not fit; "
      "num_devices is at least 1, and local_rank at least 0"
    )
  start, end = num_devices * local_rank, num_devices * (local_rank + 1)
  if visible is None:
    return ",".join(map(str, range(start, end)))
  names = [name.strip() for name in visible.split(",") if name.strip()]
  if len(names) < end:
    raise ValueError(
      f"the process of local rank {local_rank} needs GPUs {start} to "
      f"{end - 1}, but CUDA_VISIBLE_DEVICES={visible!r} has {len(names)}; "
      "start fewer processes on a machine, or use a smaller mesh"
    )
  return ",".join(names[start:end])


def reduce_gradients(
  gradients: Sequence[Gradient | None], method: str = "mean"
) -> list[Gradient | None]:
  """Returns the mean or the sum of each gradient over all processes.

  Each is computed on the device of its gradient, or on that device's host if
  Horovod was built without ops for it. Processes may have different rows, and
  numbers of rows, in a sparse gradient; all of them get all rows.

  Args:
    gradients: One gradient per variable, None where there is none; of float16,
      float32 or float64. The same variables in the same order in all
      processes; sparse, dense or None alike.
    method: "mean" or "sum".

  Returns:
    Gradients of the same kinds, shapes and dtypes, the same in all processes;
    rows of an `IndexedSlices` may occur several times, which optimizers sum.

  Raises:
    ImportError: As for `load_horovod`.
    ValueError: If `method` is unknown, or a gradient's dtype is none of these.
  """
  towers.check_method(method)
  for index, gradient in enumerate(gradients):
    if gradient is not None:
      _check_dtype(f"gradient {index}", gradient.dtype, _GRADIENT_DTYPES)
  with _name_scope("horovod_gradients"):
    return [
      None if gradient is None else _reduce(gradient, method, str(index))
      for index, gradient in enumerate(gradients)
    ]


def reduce_loss(loss: tf.Tensor, method: str = "mean") -> tf.Tensor:
  """Returns the mean or the sum of a loss over all processes.

  Fetch it in every process in the same steps, as Estimators fetch the loss of
  an EstimatorSpec.

  Args:
    loss: A tensor of float16, float32 or float64 whose shape is the same in
      all processes.
    method: "mean" or "sum".

  Returns:
    A tensor of the same shape and dtype on the loss's device.

  Raises:
    ImportError: As for `load_horovod`.
    ValueError: As for `reduce_gradients`.
  """
  towers.check_method(method)
  _check_dtype("the loss", loss.dtype, _GRADIENT_DTYPES)
  with _name_scope("horovod_loss"):
    return _reduce_dense(loss, method, "loss")


def with_broadcast(
  spec: tf.estimator.EstimatorSpec,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose training starts from the variables of process 0.

  Args:
    spec: The spec for training that a model_fn would return.

  Returns:
    The same spec, with a `BroadcastHook`. Hooks for chiefs, which all processes
    of Horovod are, come before those that read the global step to know when to
    stop.
  """
  hooks = (BroadcastHook(), *spec.training_chief_hooks)
  return spec._replace(training_chief_hooks=hooks)


class BroadcastHook(tf.estimator.SessionRunHook):
  """Gives all processes the global variables of process 0.

  It does so whenever a session is made, after variables are initialised or
  restored: only process 0 needs the checkpoint. Variables stay on their
  devices.
  """

  def __init__(self) -> None:
    self._fingerprints: tf.Tensor = None
    self._broadcast: tf.Operation = None

  def begin(self) -> None:
    """Adds the ops to the graph.

    Raises:
      ImportError: As for `load_horovod`.
      ValueError: If a variable has a dtype that Horovod does not know.
    """
    load_horovod()
    graph = tf.compat.v1.get_default_graph()
    variables = tf.compat.v1.global_variables()
    fingerprint = _fingerprint(graph, variables)
    with _name_scope("horovod_broadcast"):
      with tf.compat.v1.device("/device:CPU:0"):
        self._fingerprints = _gather(tf.constant([fingerprint]), "fingerprint")
      self._broadcast = tf.group(
        *(_broadcast_variable(variable) for variable in variables)
      )

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Compares the processes' graphs, and sets the variables.

    Raises:
      RuntimeError: If processes have built different graphs.
    """
    fingerprints = session.run(self._fingerprints)[:, 0].tolist()
    root = fingerprints[_ROOT]
    others = [i for i, x in enumerate(fingerprints) if x != root]
    if others:
      raise RuntimeError(
        f"the variables or gradients of processes {others} are not those of "
        f"process {_ROOT} (names, shapes or dtypes), so that they would wait "
        "for each other forever; build the same model in all processes"
      )
    session.run(self._broadcast)
    horovod = load_horovod()
    tf.compat.v1.logging.info(
      "Horovod: process %d of %d has the variables of process %d.",
      horovod.rank(),
      horovod.size(),
      _ROOT,
    )


class Processes:
  """The ops that join the graph of one process with those of the others."""

  def __init__(self, method: str):
    """Finds the other processes.

    Args:
      method: "mean" or "sum", of gradients and of the loss.

    Raises:
      ImportError: If Horovod is not installed.
    """
    load_horovod()
    self._method = method

  def reduce(
    self, tensors: Sequence[tf.Tensor], are_rows: Sequence[bool]
  ) -> list[tf.Tensor]:
    """Returns the gradients of all processes, for updates to read.

    Args:
      tensors: Dense gradients of this process, and the values and indices of
        sparse ones, in an order that all processes share.
      are_rows: Whether each is of a sparse gradient.

    Raises:
      ValueError: If Horovod cannot send the dtype of a gradient.
    """
    results: list[tf.Tensor] = []
    with _name_scope("horovod_gradients"):
      for tensor, is_rows in zip(tensors, are_rows, strict=True):
        if not (is_rows and tensor.dtype.is_integer):
          name = f"the gradient {tensor.name}"
          _check_dtype(name, tensor.dtype, _GRADIENT_DTYPES)
        reduce = _reduce_rows if is_rows else _reduce_dense
        results.append(reduce(tensor, self._method, str(len(results))))
    return results

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec with the loss, and the first variables, of all processes.

    Args:
      spec: The spec that this process would train.
    """
    loss = reduce_loss(spec.loss, self._method)
    return with_broadcast(spec._replace(loss=loss))


def _broadcast_variable(variable: tf.Variable) -> tf.Operation:
  """Returns an op that sets a variable to its value in process 0."""
  name = variable.op.name
  _check_dtype(f"variable {name}", variable.dtype.base_dtype, _VARIABLE_DTYPES)
  value = variable.read_value()
  with _beside(variable.device):
    sent = load_horovod().broadcast(value, _ROOT, name=name)
  return tf.compat.v1.assign(variable, sent).op


def _check_dtype(name: str, dtype: tf.DType, known: Sequence[tf.DType]) -> None:
  if dtype not in known:
    raise ValueError(
      f"{name} has the dtype {dtype.name}, which Horovod cannot send; use one "
      f"of {', '.join(sorted(x.name for x in known))}"
    )


@contextlib.contextmanager
def _name_scope(name: str) -> Iterator[None]:
  """Names ops whatever scopes and devices the caller is in."""
  with (
    tf.compat.v1.name_scope(None),
    tf.compat.v1.name_scope(name),
    tf.compat.v1.device(None),
  ):
    yield


@contextlib.contextmanager
def _beside(device: str) -> Iterator[None]:
  """Places ops on a device, or its host if they have no kernel there."""
  place: str | Callable[[tf.Operation], str] | None = device or None
  full = devices.full_device(device)
  if full is not None:
    place = device_assignment.device_function(full)
  with tf.compat.v1.device(place):
    yield


def _reduce(gradient: Gradient, method: str, name: str) -> Gradient:
  """Returns a gradient's mean or sum over processes, sparse if it was."""
  if not isinstance(gradient, tf.IndexedSlices):
    return _reduce_dense(gradient, method, name)
  return tf.IndexedSlices(
    _reduce_rows(gradient.values, method, f"{name}_values"),
    _reduce_rows(gradient.indices, method, f"{name}_indices"),
    gradient.dense_shape,
  )


def _reduce_rows(tensor: tf.Tensor, method: str, name: str) -> tf.Tensor:
  """Returns the rows of all processes: the values, or the indices, of a sum."""
  with _beside(tensor.device):
    scaled = tensor
    if method == "mean" and tensor.dtype.is_floating:
      scaled = tensor / tf.cast(load_horovod().size(), tensor.dtype)
    row = tensor.shape[1:]
    if not row.is_fully_defined():
      row = tf.shape(tensor)[1:]
    return tf.reshape(_gather(scaled, name), tf.concat([[-1], row], 0))


def _reduce_dense(tensor: tf.Tensor, method: str, name: str) -> tf.Tensor:
  """Returns a tensor's mean or sum over processes."""
  horovod = load_horovod()
  ops = {"mean": horovod.Average, "sum": horovod.Sum}
  with _beside(tensor.device):
    shape = tensor.shape
    if not shape.is_fully_defined():
      shape = tf.shape(tensor)
    column = horovod.allreduce(_column(tensor), op=ops[method], name=name)
    return tf.reshape(column, shape)


def _gather(tensor: tf.Tensor, name: str) -> tf.Tensor:
  """Returns the elements of a tensor in all processes, as a column."""
  return load_horovod().allgather(_column(tensor), name=name)


def _column(tensor: tf.Tensor) -> tf.Tensor:
  """Returns a tensor's elements, which TensorFlow cannot take for constant.

  No data is copied. TensorFlow does not know that the time is positive, and so
  neither dimension of the shape: a reshape that it can see through is removed.
  Each op of the clock is its own, so that no two columns are the same either.
  """
  host = tensor.device and devices.host_of(tensor.device)
  with tf.compat.v1.device(host or None):
    one = tf.where(tf.timestamp() > 0.0, 1, 2)
    shape = tf.stack([-1, one])
  return tf.reshape(tensor, shape)


def _fingerprint(graph: tf.Graph, variables: Sequence[tf.Variable]) -> int:
  """Returns a number for the facts that processes need to have alike."""
  parts = [
    f"variable {v.op.name} {v.shape} {v.dtype.base_dtype.name}"
    for v in variables
  ]
  parts += [
    f"{op.type} {op.name} {op.outputs[0].dtype.name}"
    for op in graph.get_operations()
    if op.type.startswith("Horovod")
  ]
  digest = hashlib.sha256("\n".join(parts).encode()).digest()
  return int(np.frombuffer(digest[:8], np.int64)[0])
