"""Writes models of tf.contrib.learn as SavedModels, signatures as in 1.15."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib.learn.constants import ProblemType
from compat.contrib.learn.model_fn import (
  ModelFnOps,
  default_head,
  export_output,
)

import tensorflow as tf

_saved_model = tf.compat.v1.saved_model
_DEFAULT_INPUT = "default_input_alternative"
_DEFAULT_OUTPUT = "default_output_alternative"


@dataclasses.dataclass(frozen=True)
class Choices:
  """The choices of a user about an export.

  Attributes:
    default_head: the head that serves requests that name none.
    assets_extra: files to copy, by their place below assets.extra.
    as_text: whether the graph is written as text.
    strip_default_attrs: whether attributes with default values are left out.
  """

  default_head: str | None = None
  assets_extra: Mapping[str, str] | None = None
  as_text: bool = False
  strip_default_attrs: bool = False


def timestamped_folder(export_dir_base: Any) -> bytes:
  """Returns a new path below a folder, called after the time in seconds.

  Args:
    export_dir_base: the folder.

  Raises:
    RuntimeError: if ten such folders exist already.
  """
  for _ in range(10):
    name = str(int(time.time()))
    path = os.path.join(tf.compat.as_bytes(export_dir_base), name.encode())
    if not tf.io.gfile.exists(path):
      return path
    time.sleep(1)
  raise RuntimeError(f"{export_dir_base} has exports of the last 10 seconds.")


def output_alternatives(
  ops: ModelFnOps, default_key: str | None
) -> tuple[dict[str | None, tuple[int, Any]], str | None]:
  """Returns the heads of a model, and the name of the default one.

  Args:
    ops: what the model_fn returned.
    default_key: the name that the user has chosen, or None.

  Raises:
    ValueError: if it is not among them, or there are several and no choice.
  """
  found = ops.output_alternatives
  if not found:
    if default_key:
      raise ValueError(
        f"default_output_alternative_key={default_key!r} is given, but the "
        "model has no output alternatives."
      )
    tensors = ops.predictions
    if not isinstance(tensors, Mapping):
      tensors = {"output": tensors}
    return {
      _DEFAULT_OUTPUT: (ProblemType.UNSPECIFIED, tensors)
    }, _DEFAULT_OUTPUT
  return dict(found), default_head(found, default_key)


def signature(inputs: Mapping[str, Any], kind: int, outputs: Any) -> Any:
  """Returns the signature of one head.

  Args:
    inputs: what a request feeds, by name.
    kind: a ProblemType.
    outputs: the head's tensors, by name.
  """
  only = next(iter(inputs.values()))
  if len(inputs) == 1 and only.dtype == tf.string:
    return export_output(kind, outputs).as_signature_def(dict(inputs))
  return _saved_model.predict_signature_def(dict(inputs), dict(outputs))


def signatures(
  inputs: Mapping[str, Any],
  heads: Mapping[str | None, tuple[int, Any]],
  default: str | None,
) -> dict[str, Any]:
  """Returns the signatures of all heads, under 1.15's names.

  Args:
    inputs: what a request feeds, by name.
    heads: (ProblemType, tensors) by name.
    default: the name of the default one.
  """
  found = {
    f"{_DEFAULT_INPUT}:{name}": signature(inputs, kind, tensors)
    for name, (kind, tensors) in heads.items()
  }
  key = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
  found[key] = found[f"{_DEFAULT_INPUT}:{default}"]
  return found


def write(
  export_dir_base: Any,
  serving_input_fn: Callable[[], Any],
  model_fn: Callable[[Any], ModelFnOps],
  checkpoint: str,
  session_config: Any,
  choices: Choices,
) -> bytes:
  """Writes a SavedModel; see Estimator.export_savedmodel.

  Args:
    export_dir_base: the folder below which the export gets its own.
    serving_input_fn: returns InputFnOps.
    model_fn: makes the model of the features, to predict.
    checkpoint: the path of the checkpoint.
    session_config: the session's configuration.
    choices: see there.

  Returns:
    The path of the export.
  """
  path = timestamped_folder(export_dir_base)
  temporary = os.path.join(
    os.path.dirname(path), b"temp-" + os.path.basename(path)
  )
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step(graph)
    served = serving_input_fn()
    ops = model_fn(served.features)
    heads, default = output_alternatives(ops, choices.default_head)
    scaffold = ops.scaffold
    saver = (
      scaffold.saver if scaffold is not None else None
    ) or tf.compat.v1.train.Saver(sharded=True)
    with tf.compat.v1.Session(config=session_config) as session:
      saver.restore(session, checkpoint)
      session.run(tf.compat.v1.tables_initializer())
      builder = _saved_model.builder.SavedModelBuilder(temporary.decode())
      builder.add_meta_graph_and_variables(
        session,
        [tf.saved_model.SERVING],
        signature_def_map=signatures(served.default_inputs, heads, default),
        main_op=tf.compat.v1.tables_initializer(),
        strip_default_attrs=choices.strip_default_attrs,
        saver=saver,
      )
      builder.save(choices.as_text)
  for target, source in (choices.assets_extra or {}).items():
    copy = os.path.join(temporary, b"assets.extra", tf.compat.as_bytes(target))
    tf.io.gfile.makedirs(os.path.dirname(copy))
    tf.io.gfile.copy(source, copy)
  tf.io.gfile.rename(temporary, path)
  return path
