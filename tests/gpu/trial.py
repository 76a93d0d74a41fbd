"""Trials: a case on devices of a type, beside the plain run on a CPU.

Sessions have hard placement, and the devices that really ran each op are
compared with the plan. GPUs have TF32 off: it rounds inputs of products to 10
bits, which no tolerance of a loss tells from a mistake.
"""

import dataclasses
import functools
import os
import random
import shutil
import time
from collections.abc import Mapping
from typing import Any

import estimator_mp
from estimator_mp import devices as devices_lib
from estimator_mp import toolbox
from estimator_mp.observe import trace_reading
from tests.estimator_mp import runs
from tests.gpu import cases as cases_lib

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
# Losses of float32, added in other orders on a GPU.
TOLERANCES = {"CPU": 1e-5, "GPU": 1e-4}
NUM_DEVICES = 6
_STEPS = 4
_EXAMPLES = 7


@dataclasses.dataclass(frozen=True)
class Trial:
  """What became of a case.

  Attributes:
    name: The case's name.
    mesh: Its mesh.
    result: "equal", "different", "failed" or "left out".
    reason: Why it is not equal; empty if it is.
    difference: The largest relative difference of a loss, a metric or a
      prediction; None if there was none to compare.
    seconds: How long it took, the plain run included.
    devices: What each device ran and held, by name.
  """

  name: str
  mesh: str
  result: str
  reason: str
  difference: float | None
  seconds: float
  devices: Mapping[str, Mapping[str, int]]


class _Memory(tf.estimator.SessionRunHook):
  """Reads from the second step what devices held."""

  def __init__(self):
    self.steps = 0
    self.metadata = None

  def before_run(self, run_context):
    self.steps += 1
    if self.steps != 2:
      return None
    options = v1.RunOptions(
      output_partition_graphs=True, trace_level=v1.RunOptions.FULL_TRACE
    )
    return tf.estimator.SessionRunArgs(None, options=options)

  def after_run(self, run_context, run_values):
    if self.steps == 2:
      self.metadata = run_values.run_metadata


def num_cards():
  """Returns how many GPUs this machine has."""
  return len(tf.config.list_physical_devices("GPU"))


def why_left_out(case, kind, stand_ins=()):
  """Returns why a case cannot be tried here; empty if it can.

  Args:
    case: The case.
    kind: The type of the devices, "CPU" or "GPU".
    stand_ins: Names of libraries that are here by name only.
  """
  if kind == "CPU":
    on_gpus = cases_lib.TWO_CARDS in case.needs
    return "NCCL is for GPUs" if on_gpus else ""
  if not num_cards():
    return "no GPU: TensorFlow sees none on this machine"
  if cases_lib.TWO_CARDS in case.needs and num_cards() < 2:
    return "needs two cards"
  missing = [x for x in case.needs if any(x in name for name in stand_ins)]
  return f"{missing[0]} is a stand-in here" if missing else ""


def divide_cards(num_bytes):
  """Makes as many logical GPUs of too few cards as the cases need.

  Args:
    num_bytes: The memory of each.
  """
  cards = tf.config.list_physical_devices("GPU")
  if len(cards) >= NUM_DEVICES:
    return
  limit = tf.config.LogicalDeviceConfiguration(num_bytes / 2**20)
  for place, card in enumerate(cards):
    count = len(range(place, NUM_DEVICES, len(cards)))
    tf.config.set_logical_device_configuration(card, [limit] * count)


def devices_for(mesh, kind):
  """Returns names of devices for a mesh.

  The last one is always of a mesh, so that two are of two cards where there are
  two.
  """
  size = estimator_mp.ShardingConfig(mesh, _cpus(mesh)).create_mesh().size
  if kind == "CPU":
    return tuple(f"/cpu:{index}" for index in range(size))
  return (*(f"/gpu:{index}" for index in range(size - 1)), _LAST_GPU)


_LAST_GPU = f"/gpu:{NUM_DEVICES - 1}"


def _cpus(mesh):
  axes = (part.partition(":")[2] for part in mesh.split(","))
  return tuple(f"/cpu:{i}" for i in range(int(np.prod([*map(int, axes)]))))


def config_of(case, kind):
  """Returns the ShardingConfig of a case on devices of a type."""
  options = dict(case.options)
  if case.by_rules:
    options["placement"] = cases_lib.model_of(case).rules
  return estimator_mp.ShardingConfig(
    case.mesh, devices_for(case.mesh, kind), **options
  )


class Tryer:
  """Tries cases in a folder; the plain run of a model is made once."""

  def __init__(self, folder, kind, logical_gpu_bytes=2**31, stand_ins=()):
    self._folder = folder
    self._kind = kind
    self._stand_ins = stand_ins
    self._plain = functools.cache(self._plain_run)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if kind == "GPU":
      divide_cards(logical_gpu_bytes)

  def __call__(self, name, case):
    """Returns what becomes of a case; whatever goes wrong is in it."""
    start = time.monotonic()
    result, reason, difference, devices = "equal", "", None, {}
    if left_out := why_left_out(case, self._kind, self._stand_ins):
      result, reason = "left out", left_out
    else:
      try:
        difference, devices = self._try(name, case)
        tolerance = TOLERANCES[self._kind]
        if not difference <= tolerance:
          result = "different"
          reason = f"by {difference:.2g}, more than {tolerance:.0e}"
      except Exception as error:  # A record says it; others are tried yet.
        text = f"{type(error).__name__}: {error}"
        result, reason = "failed", text.splitlines()[0]
    seconds = time.monotonic() - start
    return Trial(name, case.mesh, result, reason, difference, seconds, devices)

  def _try(self, name, case):
    model = cases_lib.model_of(case)
    config = config_of(case, self._kind)
    sharded = estimator_mp.shard_model_fn(model.model_fn, config)
    verified, memory = toolbox.PlacementVerificationHook(), _Memory()
    estimator = runs.make_estimator(
      sharded, config, model.params, os.path.join(self._folder, name)
    )
    plain = self._plain(case.model)
    run = self._run(estimator, model, plain.start, [verified, memory])
    pairs = [
      *zip(run.losses, plain.losses, strict=True),
      (run.logits, plain.logits),
    ]
    if case.exports:
      pairs.append((_ask_export(run.estimator, model), plain.logits))
    devices = _contents(verified, memory.metadata)
    self._check(config, devices)
    return max(difference_of(*pair) for pair in pairs), devices

  def _check(self, config, devices):
    """Raises if a device of the mesh did nothing, or another did the work."""
    mesh = config.create_mesh()
    idle = set(mesh.devices) - set(devices)
    # A stage of which nothing is split is on the first of its devices.
    if idle and "model" not in mesh.axes:
      raise AssertionError(f"{sorted(idle)} ran nothing")
    others = {
      name
      for name, has in devices.items()
      if has["products"] and devices_lib.device_type(name) != self._kind
    }
    if others:
      raise AssertionError(f"{sorted(others)} multiplied matrices")

  def _plain_run(self, model_name):
    """Returns a plain run on a CPU, and the checkpoint that it began with."""
    model = cases_lib.model_of(cases_lib.Case(model_name, "stage:1"))
    # Without devices a session makes none of GPUs, which are made once.
    session = v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    rewriter = session.graph_options.rewrite_options
    rewriter.meta_optimizer_iterations = rewriter.ONE

    def made(kind):
      folder = os.path.join(self._folder, f"{model_name}_{kind}")
      return runs.make_estimator(
        model.model_fn, None, model.params, folder, session_config=session
      )

    first = made("start")
    random.seed(11)  # Layers of a plain run draw their seeds from here.
    first.train(lambda: model.input_fn().repeat(), steps=1)
    return self._run(made("plain"), model, first.model_dir, [])

  def _run(self, estimator, model, start, hooks):
    """Trains on from a copy of a checkpoint, and predicts."""
    shutil.copytree(start, estimator.model_dir)
    losses = runs.LossRecorder()
    estimator.train(
      lambda: model.input_fn().repeat(), steps=_STEPS, hooks=[losses, *hooks]
    )
    logits = None
    if model.input_fn is runs.data.input_fn:
      logits = runs.predict(estimator)[:_EXAMPLES]
    return _Run(start, losses.losses, logits, estimator)


@dataclasses.dataclass(frozen=True)
class _Run:
  """What a run gave, and the checkpoint that it began with."""

  start: str
  losses: list[float]
  logits: Any
  estimator: Any


def difference_of(value, expected):
  """Returns how far a value is off, relative to the largest expected one."""
  if value is None or expected is None:
    return 0.0
  largest = np.abs(expected).max()
  difference = np.abs(np.asarray(value) - expected).max() / largest
  return float(difference if np.isfinite(difference) else np.inf)


def _contents(verified, metadata):
  """Returns what each device ran and held in a step, as numbers."""
  names = [*verified.observed]
  peaks = trace_reading.peak_live_bytes(metadata, names)
  return {
    name: {
      "ops": sum(contents.op_types.values()),
      "products": sum(
        count
        for kind, count in contents.op_types.items()
        if "MatMul" in kind or kind.startswith(("Conv2D", "_FusedConv2D"))
      ),
      "variables": len(contents.variables),
      "variable_bytes": contents.variable_bytes,
      "peak_live_bytes": peak,
    }
    for (name, contents), peak in zip(
      verified.observed.items(), peaks, strict=True
    )
  }


def _ask_export(estimator, model):
  """Exports a model, and returns what a CPU answers to the first examples."""
  features, _ = next(iter(model.input_fn().take(1).as_numpy_iterator()))
  examples = {name: value[:_EXAMPLES] for name, value in features.items()}

  def receiver():
    fed = {
      name: v1.placeholder(value.dtype, [None, *value.shape[1:]], name)
      for name, value in examples.items()
    }
    return tf.estimator.export.ServingInputReceiver(fed, fed)

  folder = os.path.join(estimator.model_dir, "export")
  path = estimator.export_saved_model(folder, receiver)
  cpu_only = v1.ConfigProto(device_count={"GPU": 0})
  with tf.Graph().as_default(), v1.Session(config=cpu_only) as session:
    loaded = v1.saved_model.load(session, ["serve"], path.decode())
    signature = loaded.signature_def["serving_default"]
    feed = {
      signature.inputs[name].name: value
      for name, value in examples.items()
      if name in signature.inputs
    }
    (output,) = signature.outputs.values()
    return session.run(output.name, feed)
