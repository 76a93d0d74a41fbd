"""Graph checks: mistakes in a model_fn's graph, found before a session.

TensorFlow would find them only when a session runs, in many lines, or never.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from compat.private import graph_reads
from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.graph import op_types

import tensorflow as tf


def check_spec(spec: Any) -> None:
  """Raises if a model_fn returned no EstimatorSpec.

  Args:
    spec: The spec that it returned.

  Raises:
    ValueError: If it is none.
  """
  if not hasattr(spec, "loss") or not hasattr(spec, "predictions"):
    raise ValueError(
      f"model_fn returned {spec!r}, which is not an EstimatorSpec; return "
      "tf.estimator.EstimatorSpec(mode, loss=..., train_op=...)"
    )


def check_no_tpu_ops(ops: Sequence[tf.Operation]) -> None:
  """Raises if an op can run on a TPU only.

  Args:
    ops: All ops of a model.

  Raises:
    ValueError: With the first such op.
  """
  for op in ops:
    if op.type in op_types.TPU_ONLY:
      raise ValueError(
        f"model_fn makes {op.name!r}, an op of CrossShardOptimizer that only a "
        "TPU can run, and a mesh has no TPU; wrap the optimizer on TPUs only"
      )


def check_no_compiled_computation(ops: Sequence[tf.Operation]) -> None:
  """Raises if XLA is to compile a part of the graph as one op.

  No op of it can be on another device, or give a value to one outside.

  Args:
    ops: All ops of a model.

  Raises:
    ValueError: With an output of it.
  """
  for op in ops:
    if op.type == op_types.XLA_OUTPUT:
      raise ValueError(
        f"model_fn makes {op.name!r}, an output of tf.xla.experimental.compile "
        "or of tf.contrib.compiler.xla, which compile all ops for one device; "
        "leave it out, and use tf.function(jit_compile=True) or "
        "tf.xla.experimental.jit_scope, which compile ops where they are"
      )


def check_loops(
  ops: Sequence[tf.Operation], stages: Mapping[tf.Operation, int]
) -> None:
  """Raises if marks inside of a v1 loop cut it.

  Args:
    ops: Forward ops.
    stages: The stages of those that model_fn marked.

  Raises:
    ValueError: With an op of each of two stages.
  """
  marked: dict[object, tf.Operation] = {}
  for op in ops:
    loop = graph_reads.outermost_loop(op) if op in stages else None
    if loop is None:
      continue
    other = marked.setdefault(loop, op)
    if stages[other] != stages[op]:
      raise ValueError(
        f"model_fn cuts through a loop: {other.name!r} is on stage "
        f"{stages[other]}, {op.name!r} on stage {stages[op]}; a loop belongs "
        "to one stage, so put it as a whole under estimator_mp.stage"
      )


def check_no_marks(ops: Sequence[tf.Operation], mesh: mesh_lib.Mesh) -> None:
  """Raises if model_fn places an op itself, where a device has many stages.

  Args:
    ops: The forward ops, before they are placed.
    mesh: The mesh; one whose devices are all different is never refused.

  Raises:
    ValueError: With the op and its device, which does not say its stage.
  """
  if len(set(mesh.devices)) == mesh.size:
    return
  for op in ops:
    if op.device.endswith(mesh.devices):
      raise ValueError(
        f"model_fn puts {op.name!r} on {op.device}, which has several stages "
        f"of mesh {mesh}, so its stage is not known; place by rules or "
        'placement="auto", or use num_virtual_stages=1'
      )


def check_gradients(has_some: bool) -> None:
  """Raises if a model trains, but not by gradients.

  Args:
    has_some: Whether model_fn computed gradients.

  Raises:
    ValueError: It did not.
  """
  if not has_some:
    raise ValueError(
      "model_fn returned a spec for training but computed no gradients in "
      "the Estimator's graph, so nothing was sharded; compute them by "
      "tf.gradients, an optimizer's minimize or compute_gradients, or "
      "tf.GradientTape inside model_fn"
    )


def check_devices_exist(
  graph: tf.Graph,
  mesh: mesh_lib.Mesh,
  session_config: tf.compat.v1.ConfigProto | None,
) -> None:
  """Raises if an op is on a device of this process that a session lacks.

  Args:
    graph: A graph that no session has run yet.
    mesh: The mesh, for the text of the error.
    session_config: The session's settings; with soft placement, TensorFlow
      runs such an op elsewhere.

  Raises:
    ValueError: With the op and its device.
  """
  if session_config is None or session_config.allow_soft_placement:
    return
  known: dict[str, bool] = {}
  for op in graph.get_operations():
    if op.device not in known:
      known[op.device] = _exists(op.device, session_config)
    if not known[op.device]:
      raise ValueError(
        f"model_fn puts {op.name!r} on {op.device}, which the session does "
        f"not have; use one of mesh {mesh}: {', '.join(mesh.devices)}"
      )


def _exists(device: str, session_config: tf.compat.v1.ConfigProto) -> bool:
  spec = tf.compat.v1.DeviceSpec.from_string(device)
  is_remote = bool(device) and not devices.is_local(device)
  if is_remote or spec.device_type not in ("CPU", "GPU"):
    return True
  has: int = session_config.device_count.get("CPU", 1)
  if spec.device_type == "GPU":
    has = devices.num_local_gpus()
  index: int = spec.device_index or 0
  return index < has
