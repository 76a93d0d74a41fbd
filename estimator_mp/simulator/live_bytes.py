"""How many bytes of tensors are alive on a device, as ops run in an order.

A tensor is alive from the op that makes it to the last one that reads it, on
its own device and on each that receives it. Left out is what
`observe.trace_reading.peak_live_bytes` leaves out: variables and constants.
"""

from collections.abc import Iterable, Sequence

from estimator_mp.graph import op_types, shapes
from estimator_mp.rules import elementwise

import tensorflow as tf

# A device, and the tensor in whose memory others may be.
_Buffer = tuple[str, str]
_SHARING = op_types.SHARES_MEMORY | op_types.VIEWS
# They may write into the memory of an input that nobody reads later.
_IN_PLACE = elementwise.TABLE.types | {"AddN", "BiasAdd"}


def peaks(ops: Sequence[tf.Operation]) -> dict[str, int]:
  """Returns the most bytes that are alive at once, by device.

  Args:
    ops: The ops of a step in the order in which they run.
  """
  buffers = _Buffers(ops)
  changes: dict[str, dict[int, int]] = {}
  for (device, _), (begin, end, num_bytes) in buffers.uses():
    of_device = changes.setdefault(device, {})
    of_device[begin] = of_device.get(begin, 0) + num_bytes
    # The reader and what it reads are there together.
    of_device[end + 1] = of_device.get(end + 1, 0) - num_bytes
  most = {}
  for device, of_device in changes.items():
    live = most[device] = 0
    for _, change in sorted(of_device.items()):
      live += change
      most[device] = max(most[device], live)
  return most


class _Buffers:
  """The memory of tensors: from when to when it is used."""

  def __init__(self, ops: Sequence[tf.Operation]):
    self._roots: dict[_Buffer, _Buffer] = {}
    self._ends: dict[_Buffer, int] = {}
    self._begins: dict[_Buffer, tuple[int, int]] = {}
    for op in ops:
      if op.type in _SHARING and op.inputs:
        for x in op.outputs:
          self._roots[op.device, x.name] = op.device, op.inputs[0].name
    for number, op in enumerate(ops):
      for x in op.inputs:
        self._ends[self._root(op.device, x)] = number
    for number, op in enumerate(ops):
      for x in op.inputs:  # A tensor that was received has memory here, too.
        self._enter(number, op.device, x)
      for x in op.outputs:
        if (op.device, x.name) in self._roots:
          continue
        if op.type in _IN_PLACE and self._takes_over(number, op, x):
          continue
        self._enter(number, op.device, x)

  def uses(self) -> Iterable[tuple[_Buffer, tuple[int, int, int]]]:
    """Yields buffers, when they begin and end, and their bytes."""
    for buffer, (begin, num_bytes) in self._begins.items():
      yield buffer, (begin, self._ends.get(buffer, begin), num_bytes)

  def _root(self, device: str, tensor: tf.Tensor) -> _Buffer:
    buffer = device, tensor.name
    while buffer in self._roots:
      buffer = self._roots[buffer]
    return buffer

  def _enter(self, number: int, device: str, tensor: tf.Tensor) -> None:
    is_lasting = tensor.op.type in op_types.LASTING
    if is_lasting or op_types.is_handle(tensor):
      return
    buffer = self._root(device, tensor)
    self._begins.setdefault(buffer, (number, shapes.tensor_bytes(tensor)))

  def _takes_over(
    self, number: int, op: tf.Operation, output: tf.Tensor
  ) -> bool:
    """Whether an output is in the memory of an input from here on."""
    for x in op.inputs:
      root = self._root(op.device, x)
      if (
        root in self._begins
        and self._ends[root] == number
        and self._begins[root][1] == shapes.tensor_bytes(output)
      ):
        self._roots[op.device, output.name] = root
        end = self._ends.pop((op.device, output.name), number)
        self._ends[root] = max(end, number)
        return True
    return False
