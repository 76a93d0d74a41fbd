"""Sessions with a model, which predict as one calls them."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

_DEFAULT_KEY = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Predictor:
  """Predicts, in a session of its own."""

  def __init__(
    self,
    graph: tf.Graph,
    session: Any,
    feed_tensors: Mapping[str, Any],
    fetch_tensors: Mapping[str, Any],
  ):
    """Takes the parts; the functions of this module make them.

    Args:
      graph: of the model.
      session: with the model's variables.
      feed_tensors: the model's inputs, by name.
      fetch_tensors: its predictions, by name.
    """
    self._graph = graph
    self._session = session
    self._feed_tensors = dict(feed_tensors)
    self._fetch_tensors = dict(fetch_tensors)

  @property
  def graph(self) -> tf.Graph:
    """The model's graph."""
    return self._graph

  @property
  def session(self) -> Any:
    """The session."""
    return self._session

  @property
  def feed_tensors(self) -> dict[str, Any]:
    """The model's inputs, by name."""
    return self._feed_tensors

  @property
  def fetch_tensors(self) -> dict[str, Any]:
    """The model's predictions, by name."""
    return self._fetch_tensors

  def __call__(self, input_dict: Mapping[str, Any]) -> Any:
    """Predicts.

    Args:
      input_dict: values of the model's inputs, by name.

    Returns:
      Values of the predictions, by name.

    Raises:
      ValueError: if the model has no such input.
    """
    unknown = set(input_dict) - set(self._feed_tensors)
    if unknown:
      raise ValueError(
        f"The model has no input {', '.join(sorted(unknown))}; it has "
        f"{', '.join(sorted(self._feed_tensors))}."
      )
    fed = {self._feed_tensors[key]: value for key, value in input_dict.items()}
    return self._session.run(self._fetch_tensors, feed_dict=fed)

  def close(self) -> None:
    """Closes the session."""
    self._session.close()

  def __repr__(self) -> str:
    return (
      f"{type(self).__name__} with feed tensors {self._feed_tensors} and "
      f"fetch_tensors {self._fetch_tensors}"
    )


def from_saved_model(
  export_dir: str,
  signature_def_key: str | None = None,
  signature_def: Any = None,
  input_names: Mapping[str, str] | None = None,
  output_names: Mapping[str, str] | None = None,
  tags: str | None = None,
  graph: tf.Graph | None = None,
  config: Any = None,
) -> Predictor:
  """Returns a predictor of a SavedModel.

  Args:
    export_dir: the SavedModel's folder.
    signature_def_key: which of its signatures; "serving_default" by default.
    signature_def: a signature, in its place.
    input_names: names of tensors, by name of an input; and
    output_names: by name of a prediction, in the place of a signature.
    tags: of the graph, with commas between; "serve" by default.
    graph: what the model is loaded into; a new one by default.
    config: the session's configuration.

  Raises:
    ValueError: if there are several signatures, or none of that key.
  """
  if sum(
    one is not None for one in (signature_def_key, signature_def, input_names)
  ) > 1 or (input_names is None) != (output_names is None):
    raise ValueError(
      "Give signature_def_key, or signature_def, or input_names and "
      "output_names."
    )
  graph = graph or tf.Graph()
  with graph.as_default():
    session = tf.compat.v1.Session(config=config)
    loaded = tf.compat.v1.saved_model.loader.load(
      session, (tags or tf.saved_model.SERVING).split(","), export_dir
    )
  if input_names is None:
    found = signature_def
    if found is None:
      key = signature_def_key or _DEFAULT_KEY
      if key not in loaded.signature_def:
        raise ValueError(
          f"{export_dir} has no signature {key!r}; it has "
          f"{', '.join(sorted(loaded.signature_def))}."
        )
      found = loaded.signature_def[key]
    input_names = {key: one.name for key, one in found.inputs.items()}
    output_names = {key: one.name for key, one in found.outputs.items()}
  assert output_names is not None
  element = graph.get_tensor_by_name
  return Predictor(
    graph,
    session,
    {key: element(name) for key, name in input_names.items()},
    {key: element(name) for key, name in output_names.items()},
  )


def _session(
  graph: tf.Graph, scaffold: Any, model_dir: str, config: Any
) -> Any:
  with graph.as_default():
    return tf.compat.v1.train.MonitoredSession(
      tf.compat.v1.train.ChiefSessionCreator(
        scaffold or tf.compat.v1.train.Scaffold(),
        config=config,
        checkpoint_filename_with_path=tf.train.latest_checkpoint(model_dir),
      )
    )


def from_estimator(
  estimator: Any,
  serving_input_receiver_fn: Callable[[], Any],
  output_key: str | None = None,
  graph: tf.Graph | None = None,
  config: Any = None,
) -> Predictor:
  """Returns a predictor of a tf.estimator.Estimator.

  Args:
    estimator: the Estimator, trained.
    serving_input_receiver_fn: returns a ServingInputReceiver.
    output_key: which of the export_outputs; "serving_default" by default.
    graph: what the model is made in; a new one by default.
    config: the session's configuration.

  Raises:
    TypeError: if estimator is of tf.contrib.learn.
    ValueError: if the model has no such export_output.
  """
  if not isinstance(estimator, tf.compat.v1.estimator.Estimator):
    raise TypeError(
      f"estimator is a {type(estimator).__name__}, and no "
      "tf.estimator.Estimator. Use from_contrib_estimator."
    )
  graph = graph or tf.Graph()
  with graph.as_default():
    tf.compat.v1.train.create_global_step(graph)
    receiver = serving_input_receiver_fn()
    spec = estimator.model_fn(
      receiver.features,
      None,
      tf.compat.v1.estimator.ModeKeys.PREDICT,
      estimator.config,
    )
    outputs = spec.export_outputs or {}
    key = output_key or _DEFAULT_KEY
    if key not in outputs and len(outputs) == 1 and output_key is None:
      key = next(iter(outputs))
    if key not in outputs:
      raise ValueError(
        f"The model has no export_output {key!r}; it has "
        f"{', '.join(map(str, outputs))}."
      )
    signature = outputs[key].as_signature_def(receiver.receiver_tensors)
    session = _session(graph, spec.scaffold, estimator.model_dir, config)
  element = graph.get_tensor_by_name
  return Predictor(
    graph,
    session,
    {name: element(one.name) for name, one in signature.inputs.items()},
    {name: element(one.name) for name, one in signature.outputs.items()},
  )


def from_contrib_estimator(
  estimator: Any,
  prediction_input_fn: Callable[[], Any],
  input_alternative_key: str | None = None,
  output_alternative_key: str | None = None,
  graph: tf.Graph | None = None,
  config: Any = None,
) -> Predictor:
  """Returns a predictor of a tf.contrib.learn.Estimator.

  Args:
    estimator: the Estimator, trained.
    prediction_input_fn: returns InputFnOps.
    input_alternative_key: must be left out; there is one kind of input.
    output_alternative_key: which of the heads; needed if there are several.
    graph: what the model is made in; a new one by default.
    config: the session's configuration.

  Raises:
    TypeError: if estimator is of tf.estimator.
    ValueError: if a key does not exist.
  """
  from compat.contrib.learn.saved_models import output_alternatives

  if isinstance(estimator, tf.compat.v1.estimator.Estimator):
    raise TypeError(
      "estimator is a tf.estimator.Estimator. Use from_estimator."
    )
  if input_alternative_key is not None:
    raise ValueError(
      f"input_alternative_key={input_alternative_key!r} must be left out."
    )
  graph = graph or tf.Graph()
  with graph.as_default():
    tf.compat.v1.train.create_global_step(graph)
    inputs = prediction_input_fn()
    ops = estimator.predict_ops(inputs.features)
    heads, default = output_alternatives(ops, output_alternative_key)
    session = _session(graph, ops.scaffold, estimator.model_dir, config)
  return Predictor(graph, session, inputs.default_inputs, heads[default][1])
