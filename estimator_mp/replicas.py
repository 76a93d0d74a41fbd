"""Replicas: the whole staged model once more, on devices of its own.

Each replica computes the gradients of its own slice of the batch, by clones of
the ops of replica 0, as micro-batches are. It reads variables in one of two
ways:

- `shared`: where they are, in replica 0; each step sends them.
- `mirrored`: from copies on its own devices; see `mirrors`.

Data parallelism over replicas that are pipelines themselves is in GPipe (Huang
et al., 2019) and, with more axes, in GSPMD (Xu et al., 2021, arXiv:2105.04663).
"""

from collections.abc import Callable, Collection, Sequence

from compat import private_graph
from estimator_mp import clones as clones_lib
from estimator_mp import devices as devices_lib
from estimator_mp import graph_slice, mirrors, units
from estimator_mp import mesh as mesh_lib

import tensorflow as tf

VARIABLES = ("mirrored", "shared")


class Replicas:
  """The replicas of one graph's model.

  Attributes:
    count: How many there are, D; replica 0 is what model_fn builds.
  """

  def __init__(self, mesh: mesh_lib.Mesh, variables: str):
    """Starts with nothing mirrored.

    Args:
      mesh: A mesh; its `data` axis says how many replicas there are.
      variables: "mirrored" or "shared".
    """
    self.count = mesh.axis_size("data")
    self._variables: list[tf.Operation] = []
    self._is_mirrored = variables == "mirrored"
    self._device_of = [_device_map(mesh, r) for r in range(self.count)]
    self._part: set[tf.Operation] = set()
    self._clones = clones_lib.Clones(
      [
        clones_lib.Home(f"replica_{r}", self._device_of[r])
        for r in range(1, self.count)
      ]
    )

  def homes(self, num_micro_batches: int) -> list[clones_lib.Home]:
    """Returns where all micro-batches but the first of replica 0 are.

    Args:
      num_micro_batches: How many each replica has, M. Micro-batch m of replica
        r is number r * M + m of all; the first one is left out.
    """
    homes = [
      clones_lib.Home(f"micro_batch_{m}") for m in range(1, num_micro_batches)
    ]
    for r in range(1, self.count):
      for m in range(num_micro_batches):
        scope = f"replica_{r}/micro_batch_{m}"
        homes.append(self._clones.home(r - 1, scope, self._device_of[r]))
    return homes

  def is_copy(self, op: tf.Operation) -> bool:
    """Whether an op belongs to mirrors.

    Args:
      op: An op.
    """
    return self._clones.is_copy(op)

  def mirror(self, ops: Sequence[tf.Operation]) -> None:
    """Mirrors variables, and whatever is computed from variables alone.

    Args:
      ops: What the first micro-batch reads and does not differ between
        micro-batches, in the order of the graph.
    """
    if not self._is_mirrored:
      return
    new: set[tf.Operation] = set()
    loops: set[int] = set()
    size = -1
    while len(new) > size:  # Again for loops, which feed back.
      size = len(new)
      for op in ops:
        if op in self._part or op in new or graph_slice.is_write(op):
          continue
        loop = private_graph.outermost_loop(op)
        if (
          units.is_variable(op)
          or any(t.op in new or t.op in self._part for t in op.inputs)
          or (loop is not None and id(loop) in loops)
        ):
          new.add(op)
          if loop is not None:
            loops.add(id(loop))
    part = [op for op in ops if op in new]
    self._clones.add(part)
    self._part.update(part)
    self._variables += units.variables_of(part)

  def keep_equal(
    self,
    spec: tf.estimator.EstimatorSpec,
    forward: Collection[tf.Operation],
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec that trains all replicas' variables alike.

    Args:
      spec: What model_fn returned.
      forward: The ops of replica 0 that other replicas have clones of.
    """
    if not self._variables:
      return spec
    mirrored = [
      mirrors.Mirrored(variable, self._clones.of(variable.outputs[0]))
      for variable in self._variables
    ]
    train_op = getattr(spec.train_op, "op", spec.train_op)
    following, copy_all = mirrors.follow_writes(mirrored, train_op, forward)
    mirrors.record_mirrors(mirrored)
    hook = mirrors.MirrorHook(copy_all)
    if following is not train_op:
      spec = spec._replace(train_op=following)
    return spec._replace(training_hooks=(*spec.training_hooks, hook))


def _device_map(mesh: mesh_lib.Mesh, replica: int) -> Callable[[str], str]:
  """Returns a function from devices of replica 0 to those of another."""
  of: dict[str, str] = {}
  stages = range(mesh.axis_size("stage"))
  pairs = [
    (mesh.device(stage=k), mesh.device(data=replica, stage=k)) for k in stages
  ]
  of.update(pairs)
  for first, other in pairs:
    of.setdefault(devices_lib.host_of(first), devices_lib.host_of(other))
  return lambda device: of.get(device, device)
