"""Compare: the plain and the sharded model, trained side by side.

Both start from one checkpoint and train on the same batches, in turns. So users
test on their own program that sharding changes nothing.
"""

import contextlib
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from estimator_mp import mesh as mesh_lib
from estimator_mp import sharding
from estimator_mp.comparison import comparison, training_graph
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config import sharding_options
from estimator_mp.session import session_config

import tensorflow as tf

_MOST_LETTERS = 200


def compare(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  input_fn: Callable[..., Any],
  config: sharding_config_lib.ShardingConfig,
  steps: int = 5,
  *,
  tolerance: float = 1e-5,
  params: Mapping[str, Any] | None = None,
  run_config: tf.estimator.RunConfig | None = None,
  checkpoint: str | None = None,
  restart_each_step: bool = False,
) -> comparison.Comparison:
  """Trains a model plain and sharded, in turns, and compares every step.

  Both start from one checkpoint, so that it does not matter how initial values
  are drawn, and get the same batches, which are read from `input_fn` once. The
  spec's Scaffold and training hooks work as they do for an Estimator. Only a
  temporary folder is written to. Layers of tf_keras stay seeded by the
  RunConfig's seed afterwards.

  Args:
    model_fn: The model_fn of your Estimator, not sharded; `estimator.model_fn`
      will do.
    input_fn: Its input_fn for training.
    config: How to shard it.
    steps: Number of training steps; fewer if `input_fn` ends before.
    tolerance: The largest difference that counts as equal; see `ComparedStep`.
    params: The Estimator's params.
    run_config: The Estimator's RunConfig: its seed and the plain model's
      session are as it says. None for one of defaults.
    checkpoint: A checkpoint, or a model_dir with one, to start from; None for
      the plain model's initial values.
    restart_each_step: Whether the sharded model starts every step from the
      plain model's variables, so that differences do not accumulate. It is
      built again each time.

  Raises:
    ValueError: If an argument is wrong, the checkpoint is not of this model,
      `input_fn` has no batch, or model_fn cannot be sharded.
  """
  _check_arguments(config, steps, tolerance)
  run_config = run_config or tf.estimator.RunConfig()
  batches = training_graph.read_batches(input_fn, steps, run_config, params)
  if not batches.values:
    raise ValueError(
      "input_fn gave no batch, so nothing was compared; give one that does"
    )
  # The batches are fed, so that both have the same ones.
  config = dataclasses.replace(config, prefetch_inputs=False, draws="whole")
  session = session_config.session_config(config, run_config.session_config)
  with tempfile.TemporaryDirectory() as folder:

    def described(name: str, **changed: Any) -> tf.estimator.RunConfig:
      return run_config.replace(model_dir=os.path.join(folder, name), **changed)

    plain = functools.partial(
      training_graph.TrainingGraph,
      _without_marks(model_fn, config.create_mesh()),
      batches.inputs,
      described("plain"),
      params,
    )
    sharded = functools.partial(
      training_graph.TrainingGraph,
      sharding.shard_model_fn(model_fn, config),
      batches.inputs,
      described("sharded", session_config=session),
      params,
    )
    begin = (
      plain().initialize(os.path.join(folder, "initial"))
      if checkpoint is None
      else _find_checkpoint(checkpoint)
    )
    plain_run = _started(plain, begin, "rounding", "draws")
    with contextlib.closing(plain_run), contextlib.ExitStack() as stack:
      sharded_run = _started(sharded, begin, "draws")
      stack.callback(sharded_run.close)
      pairs = []
      for number, values in enumerate(batches.values, start=1):
        if plain_run.is_over() or sharded_run.is_over():
          break
        if restart_each_step and number > 1:
          stack.close()
          path = plain_run.save(os.path.join(folder, f"step_{number}"))
          sharded_run = _started(sharded, path, "draws")
          stack.callback(sharded_run.close)
        pairs.append((plain_run.step(values), sharded_run.step(values)))
  if not pairs:
    raise ValueError(
      "a training hook of the model stopped before the first step, so nothing "
      "was compared; leave it out"
    )
  return comparison.judge(
    pairs, plain_run.graph, config, tolerance, checkpoint, restart_each_step
  )


def _started(
  build: Callable[[], training_graph.TrainingGraph],
  checkpoint: str,
  *others: str,
) -> training_graph.TrainingRun:
  """Returns a run of a new graph, from a checkpoint, with fields of steps."""
  graph = build()
  try:
    return graph.start(checkpoint, others)
  except (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
  ) as error:
    reason = " ".join(error.message.split())[:_MOST_LETTERS]
    raise ValueError(
      f"checkpoint={checkpoint!r} is not of this model ({reason}); give a "
      "checkpoint of this model_fn, or none for initial values"
    ) from error


def _without_marks(
  model_fn: Callable[..., tf.estimator.EstimatorSpec], mesh: mesh_lib.Mesh
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn in which `estimator_mp.stage` places nothing."""
  unplaced = mesh_lib.UnplacedMesh(mesh.axes, mesh.devices)

  @functools.wraps(model_fn)
  def plain(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    with mesh_lib.current_mesh(unplaced):
      return model_fn(*args, **kwargs)

  return plain


def _check_arguments(
  config: sharding_config_lib.ShardingConfig, steps: int, tolerance: float
) -> None:
  sharding_config_lib.check_config(config)
  if config.aggregation == sharding_options.HOROVOD:
    raise ValueError(
      'aggregation="horovod" sums over processes, and compare is one process; '
      'compare with a data axis, such as mesh="data:2"'
    )
  if type(steps) is not int or steps < 1:
    raise ValueError(
      f"steps={steps!r} would compare nothing; use an integer from 1 on"
    )
  if not 0 <= tolerance < 1:
    raise ValueError(
      f"tolerance={tolerance!r} is out of range; use a number from 0 up to 1,"
      " such as 1e-5"
    )


def _find_checkpoint(given: str) -> str:
  """Returns the path of a checkpoint."""
  if tf.io.gfile.isdir(given):
    path = tf.train.latest_checkpoint(given)
  else:
    path = given if tf.io.gfile.exists(f"{given}.index") else None
  if path is None:
    raise ValueError(
      f"checkpoint={given!r} is neither a checkpoint nor a model_dir with one; "
      "give the path of one, or none for initial values"
    )
  return str(path)
