"""RunConfig for a sharded run: sessions that have the devices of a mesh."""

import dataclasses
import functools
import os
import re
import tempfile
from typing import Any

from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config import sharding_options
from estimator_mp.planning import sharding_plan
from estimator_mp.session import distribution

import tensorflow as tf
from absl import logging

PREFETCHED_POSITION = (
  "prefetch_inputs=True takes batches before their steps, so that "
  "save_input_position=True would save a position that is too far; leave one "
  "of them out"
)


@dataclasses.dataclass(frozen=True)
class ShardedRun:
  """The arguments of `run_config`, which a training graph has to match.

  Attributes:
    mesh: The text of the mesh.
    devices: Its devices.
    saves_input_position: Whether checkpoints have the position in the input.
    sharding: The configuration that the mesh was made of.
    model_dir: The argument of `run_config`; an Estimator may be told later.
  """

  mesh: str
  devices: tuple[str, ...]
  saves_input_position: bool
  # RunConfigs are logged as a whole.
  sharding: sharding_config_lib.ShardingConfig = dataclasses.field(repr=False)
  model_dir: str | None = dataclasses.field(repr=False)


class _OfShardedRun:
  """The additions of a sharded run to its RunConfig.

  An Estimator asks its RunConfig for `checkpoint_save_graph_def` when its
  training graph is complete and a session is about to be made, and at no other
  time. So this is where a graph that was not sharded is found.

  In a cluster without parameter servers, one session drives the mesh over all
  tasks. To an Estimator, that is a run in one process whose session is the
  chief's server's; and in no other sessions is there more than one process.
  """

  sharded_run: ShardedRun

  def _plain(self, name: str) -> Any:
    """Returns an attribute as RunConfig has it."""
    return getattr(super(), name)

  @property
  def _is_in_graph(self) -> bool:
    """Whether one mesh spans several tasks."""
    cluster = self._plain("cluster_spec")  # That of a TPUConfig may be None.
    jobs = cluster.as_dict() if cluster else {}
    size = sum(len(addresses) for addresses in jobs.values())
    return size > 1 and not self._plain("num_ps_replicas")

  @property
  def _is_served(self) -> bool:
    """Whether it does, and the tasks serve it now."""
    return self._is_in_graph and distribution.is_cluster_run()

  @property
  def cluster_spec(self) -> tf.train.ClusterSpec:
    """As RunConfig's; no cluster while its tasks serve the mesh."""
    cluster = self._plain("cluster_spec")
    return tf.train.ClusterSpec({}) if self._is_served else cluster

  @property
  def num_worker_replicas(self) -> int:
    """As RunConfig's; 1 while the tasks of a cluster serve the mesh."""
    return 1 if self._is_served else int(self._plain("num_worker_replicas"))

  @property
  def master(self) -> str:
    """As RunConfig's; this process unless the cluster's tasks serve."""
    is_alone = self._is_in_graph and not self._is_served
    return "" if is_alone else str(self._plain("master"))

  @property
  def evaluation_master(self) -> str:
    """As RunConfig's; the server while the cluster's tasks serve the mesh."""
    name = "master" if self._is_served else "evaluation_master"
    return str(self._plain(name))

  @property
  def checkpoint_save_graph_def(self) -> bool:
    """As RunConfig's; raises if the default graph trains unsharded."""
    graph = tf.compat.v1.get_default_graph()
    # Estimator has filed the loss; a model_fn that is being sharded may have.
    has_loss = graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)
    if has_loss and mesh_lib.get_mesh() is None:
      _check_sharded(graph, self.sharded_run)
    return bool(self._plain("checkpoint_save_graph_def"))

  def __reduce__(self) -> tuple[Any, ...]:
    """Copies and pickles it by the class that it was made of."""
    return _with_attributes, (_plain_kind(self), vars(self))


def _plain_kind(run_config: Any) -> Any:
  """Returns the class of a RunConfig, without `_OfShardedRun`."""
  kind = type(run_config)
  return kind.__mro__[2] if issubclass(kind, _OfShardedRun) else kind


def _with_attributes(
  kind: Any, attributes: dict[str, Any]
) -> tf.estimator.RunConfig:
  """Returns a RunConfig of a sharded run with these attributes."""
  revived = object.__new__(_kind_of_sharded_run(kind))
  vars(revived).update(attributes)
  return revived


@functools.cache
def _kind_of_sharded_run(kind: Any) -> Any:
  """Returns a subclass of a kind of RunConfig, for sharded runs."""
  return type(kind.__name__, (_OfShardedRun, kind), {})


def _check_sharded(graph: tf.Graph, expected: ShardedRun) -> None:
  """Raises if a graph that is about to be trained was never sharded."""
  if sharding_plan.get_plan(graph) is not None:
    return
  named = {op.device for op in graph.get_operations()}
  # An Estimator itself puts the input there.
  placed = {devices.full_device(x) for x in named} - {None, "/device:CPU:0"}
  on_mesh = not placed.isdisjoint(expected.devices)
  by_hand = on_mesh or len(expected.devices) == 1
  slices = expected.sharding.create_schedule().num_micro_batches
  if by_hand and slices == 1 and not expected.saves_input_position:
    return
  raise ValueError(
    f"config=estimator_mp.run_config(...) is for mesh {expected.mesh}, but the "
    "training graph was never sharded; give the Estimator "
    "estimator_mp.shard_model_fn(model_fn, config), or shard an Estimator that "
    "has its own model_fn by estimator_mp.shard_estimator(estimator, config)"
  )


def sharded_run_of(run_config: Any) -> ShardedRun | None:
  """Returns the arguments of `run_config`; None for anything else's result.

  Args:
    run_config: A RunConfig, or None.
  """
  return getattr(run_config, "sharded_run", None)


def is_model_dir_temporary(run_config: Any) -> bool:
  """Whether no model_dir was given, so that an Estimator made itself one.

  Args:
    run_config: The Estimator's; only that of a sharded run is asked.
  """
  # As `tempfile.mkdtemp()` names it.
  folder, name = os.path.split(run_config.model_dir or "")
  of_run = sharded_run_of(run_config)
  return (
    of_run is not None
    and of_run.model_dir is None
    and folder == tempfile.gettempdir()
    and re.fullmatch(r"tmp\w{8}", name) is not None
  )


def saves_input_position(run_config: Any) -> bool:
  """Whether a RunConfig says that checkpoints have the position in the input.

  Args:
    run_config: The RunConfig that an Estimator gives its model_fn, or None.
  """
  of_run = sharded_run_of(run_config)
  return of_run is not None and of_run.saves_input_position


def run_config(
  config: sharding_config_lib.ShardingConfig,
  model_dir: str | None = None,
  save_input_position: bool = False,
  **run_config_kwargs: Any,
) -> tf.estimator.RunConfig:
  """Returns a RunConfig whose sessions have the devices of a mesh.

  - Hard placement (`allow_soft_placement=False`): an op that cannot run where
    it was placed is an error, not a silent move to the first device.
  - As many CPU devices as the mesh names.
  - The logical GPUs of `tf.config.set_logical_device_configuration`.
  - In a cluster, filters for devices that let a session wait for the tasks of
    the mesh, and for parameter servers, but for no others; and, where one mesh
    spans the tasks, variables that no other session sees.
  - A thread pool per session with a thread per device; a lower limit of
    `session_config` is raised to that, with a line in the log. TensorFlow
    otherwise shares one pool in the process, sized by the first session, and a
    small pool makes the devices take turns.

  An Estimator with this RunConfig does not train a graph that was never
  sharded: that is an error.

  Args:
    config: The sharding.
    model_dir: Where checkpoints and summaries go.
    save_input_position: Whether each checkpoint gets, in a file of its own,
      the state of the input's `tf.data` iterators, so that a run that resumes
      goes on with the batch that would have been next. See
      `InputPositionHook`.
    **run_config_kwargs: Anything else `tf.estimator.RunConfig` takes. A
      `session_config` given here keeps all settings that are not in the list
      above, and is not changed itself. With a `tpu_config`, the result is the
      RunConfig that a `TPUEstimator` (with `use_tpu=False`) asks for.

  Returns:
    A new `tf.estimator.RunConfig`.

  Raises:
    ValueError: If `config` is not a ShardingConfig, there is a distribution
      strategy, or the input's position is to be saved though each process has
      an input of its own, or batches are prefetched. When training begins: if
      the graph was never sharded.
  """
  base = run_config_kwargs.pop("session_config", None)
  kind = tf.estimator.RunConfig
  if "tpu_config" in run_config_kwargs:
    kind = tf.compat.v1.estimator.tpu.RunConfig
  plain = kind(
    model_dir=model_dir,
    session_config=session_config(config, base),
    **run_config_kwargs,
  )
  distribution.check_run_config(plain, config.create_mesh())
  return _of_sharded_run(plain, config, save_input_position)


def _of_sharded_run(
  plain: tf.estimator.RunConfig,
  config: sharding_config_lib.ShardingConfig,
  save_input_position: bool,
) -> tf.estimator.RunConfig:
  """Returns a RunConfig as that of a sharded run."""
  if save_input_position and config.aggregation == sharding_options.HOROVOD:
    raise ValueError(
      'save_input_position=True with aggregation="horovod": only one process '
      "saves checkpoints, but each has an input of its own; leave "
      "save_input_position out"
    )
  if save_input_position and config.prefetch_inputs:
    raise ValueError(PREFETCHED_POSITION)
  mesh = config.create_mesh()
  of_run = ShardedRun(
    str(mesh), mesh.devices, save_input_position, config, plain.model_dir
  )
  attributes = vars(plain) | {"sharded_run": of_run}
  return _with_attributes(_plain_kind(plain), attributes)


def for_sharded_run(
  base: tf.estimator.RunConfig,
  config: sharding_config_lib.ShardingConfig,
  save_input_position: bool = False,
) -> tf.estimator.RunConfig:
  """Returns a RunConfig as `run_config` does, with all else as in another one.

  Args:
    base: The other one, of whatever class; not changed.
    config: The sharding.
    save_input_position: As for `run_config`; the setting of `base` counts too.

  Returns:
    A copy of it.

  Raises:
    ValueError: If both say how devices are used, and differ.
  """
  _check_no_conflict(base, config.create_mesh())
  plain = base.replace(
    session_config=session_config(config, base.session_config)
  )
  saves = save_input_position or saves_input_position(base)
  return _of_sharded_run(plain, config, saves)


def _check_no_conflict(
  base: tf.estimator.RunConfig, mesh: mesh_lib.Mesh
) -> None:
  """Raises if a RunConfig and a mesh contradict each other about devices."""
  for name in ("train_distribute", "eval_distribute"):
    strategy = getattr(base, name)
    if strategy is not None:
      raise ValueError(
        f"the Estimator's config has {name}={type(strategy).__name__}, which "
        f"assigns devices itself, as mesh {mesh} does; leave one of them out"
      )
  expected = sharded_run_of(base)
  if expected is not None and expected.devices != mesh.devices:
    raise ValueError(
      f"the Estimator's config was made by estimator_mp.run_config for mesh "
      f"{expected.mesh}, but it is to be sharded over mesh {mesh}; use the "
      "same ShardingConfig for both"
    )
  session = base.session_config
  if session is None:
    return
  for kind in ("CPU", "GPU"):
    needs = _num_devices(mesh, kind)
    if kind == "GPU" and all(map(devices.is_local, mesh.devices)):
      # Those of this machine are counted, not logical ones of them.
      needs = min(needs, len(devices.logical_gpus()))
    if kind in session.device_count and session.device_count[kind] < needs:
      raise ValueError(
        f"the Estimator's session_config has device_count={{{kind!r}: "
        f"{session.device_count[kind]}}}, but mesh {mesh} needs {needs}; leave "
        "it out or raise it"
      )


def _num_devices(mesh: mesh_lib.Mesh, kind: str) -> int:
  """Returns how many devices of a type a session needs for a mesh."""
  specs = [tf.compat.v1.DeviceSpec.from_string(x) for x in mesh.devices]
  return max(
    (x.device_index + 1 for x in specs if x.device_type == kind), default=0
  )


def session_config(
  config: sharding_config_lib.ShardingConfig,
  base: tf.compat.v1.ConfigProto | None = None,
) -> tf.compat.v1.ConfigProto:
  """Returns a session configuration that holds and obeys a mesh.

  Args:
    config: The sharding.
    base: Settings to start from; not changed. None for an Estimator's
      defaults.

  Returns:
    A new `ConfigProto`; `run_config` lists its settings.
  """
  sharding_config_lib.check_config(config)
  mesh = config.create_mesh()
  proto = tf.compat.v1.ConfigProto()
  if base is not None:
    proto.CopyFrom(base)
  else:
    # As an Estimator without a session_config has it; a second iteration
    # rewrites graphs otherwise, which changes how numbers are rounded.
    options = proto.graph_options.rewrite_options
    options.meta_optimizer_iterations = options.ONE
  proto.allow_soft_placement = False
  tasks = _tasks_of_cluster(mesh)
  # In a cluster a session has the threads of its task's server.
  proto.use_per_session_threads = not tasks
  # A session beside a cluster has a device for each position of its mesh.
  cpus = devices.num_virtual_cpus(mesh.on_this_machine().devices)
  proto.device_count["CPU"] = max(proto.device_count.get("CPU", 1), cpus)
  divided, limits = proto.gpu_options.experimental, devices.logical_gpus()
  if any(limits) and not divided.virtual_devices:
    # The eager runtime has the same ones, and shares their memory.
    for of_gpu in limits:
      divided.virtual_devices.add(memory_limit_mb=of_gpu)
  proto.inter_op_parallelism_threads = _num_threads(
    proto.inter_op_parallelism_threads, mesh
  )
  if tasks:
    # Without filters, or with an Estimator's own, a session waits for tasks
    # that it does not use, or does not see those that it uses.
    proto.device_filters[:] = sorted({*proto.device_filters, *tasks})
    # As in one process, each session has variables of its own, or those of an
    # evaluation would be those of training. Parameter servers share theirs.
    cluster = tasks_lib.from_environment()
    between = cluster is not None and cluster.is_between_graph
    proto.isolate_session_state = not between
  return proto


def _num_threads(limit: int, mesh: mesh_lib.Mesh) -> int:
  """Returns how many ops a session executes at a time.

  Args:
    limit: The program's setting; 0 for none.
    mesh: With fewer threads than devices, devices take turns.
  """
  if limit == 0:
    return max(mesh.size, os.cpu_count() or 1)
  if limit < mesh.size:
    logging.info(
      "inter_op_parallelism_threads=%d of the session_config is raised to %d, "
      "a thread for each device of mesh %s",
      limit,
      mesh.size,
      mesh,
    )
  return max(limit, mesh.size)


def compiles_with_xla(session_config: Any) -> bool:
  """Whether XLA's auto-clustering compiles a session's graphs.

  Args:
    session_config: Its ConfigProto; None for one that says nothing.
  """
  levels = tf.compat.v1.OptimizerOptions
  level = levels.DEFAULT
  if session_config is not None:
    level = session_config.graph_options.optimizer_options.global_jit_level
  if level != levels.DEFAULT:
    return bool(level != levels.OFF)
  flags = os.environ.get("TF_XLA_FLAGS", "")
  return bool(re.search(r"--tf_xla_auto_jit=\D*[1-9]", flags))


def _tasks_of_cluster(mesh: mesh_lib.Mesh) -> set[str]:
  """Returns the tasks that a session is to see, as parts of device names."""
  tasks = {devices.task_of(name) for name in mesh.devices} - {""}
  cluster = tasks_lib.from_environment()
  if cluster is None or not tasks:
    return tasks
  if cluster.is_between_graph:
    tasks.add(f"/job:{tasks_lib.PARAMETER_SERVER}")
  return {*tasks, cluster.task.device_prefix}
