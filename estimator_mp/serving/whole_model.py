"""The whole model, as an Estimator exported it, from which stages are cut."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from estimator_mp.planning import sharding_plan
from estimator_mp.serving import pipeline_file
from estimator_mp.serving.steps import Feeds
from estimator_mp.session import export

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

_ASSETS = "saved_model_assets"
_INIT = "__saved_model_init_op"
_MAIN = ("saved_model_main_op", "legacy_init_op")


@dataclasses.dataclass(frozen=True)
class WholeModel:
  """A SavedModel, and the graph that it was written from.

  Attributes:
    folder: The folder of the SavedModel.
    graph: The graph, with the shapes that TensorFlow found.
    meta_graph: The MetaGraphDef that was written.
    stages: The stages of ops, by name.
    num_stages: How many stages the mesh has.
  """

  folder: str
  graph: tf.Graph
  meta_graph: tf.compat.v1.MetaGraphDef
  stages: Mapping[str, int]
  num_stages: int

  @property
  def signatures(self) -> dict[str, Any]:
    """The SignatureDefs that people call, by name."""
    return {
      name: signature
      for name, signature in self.meta_graph.signature_def.items()
      if name != _INIT
    }

  def feeds(self, name: str) -> Feeds:
    """Returns the tensors of a signature.

    Args:
      name: Its name.
    """
    signature = self.signatures[name]
    inputs, outputs = (
      dict.fromkeys(x.name for _, x in sorted(side.items()))
      for side in (signature.inputs, signature.outputs)
    )
    return Feeds(tuple(inputs), tuple(outputs))

  def spec(self, tensor: str) -> pipeline_file.TensorSpec:
    """Returns the type that stages send for a tensor, or for an awaited op.

    Args:
      tensor: Its name, or "^" and that of the op.
    """
    if tensor.startswith("^"):
      return pipeline_file.TensorSpec("bool", ())
    return pipeline_file.TensorSpec.of(self.graph.get_tensor_by_name(tensor))

  @property
  def init_op(self) -> str | None:
    """The name of the op that a loaded model runs first."""
    if _INIT in self.meta_graph.signature_def:
      outputs = self.meta_graph.signature_def[_INIT].outputs
      return str(next(iter(outputs.values())).name.partition(":")[0])
    for key in _MAIN:
      if key in self.meta_graph.collection_def:
        names = self.meta_graph.collection_def[key].node_list.value
        return str(names[0].partition(":")[0]) if names else None
    return None

  @property
  def assets(self) -> list[Any]:
    """The files that tables are read from, as AssetFileDefs."""
    listed = list(self.meta_graph.asset_file_def)
    if not listed and _ASSETS in self.meta_graph.collection_def:
      for packed in self.meta_graph.collection_def[_ASSETS].any_list.value:
        listed.append(meta_graph_pb2.AssetFileDef())
        packed.Unpack(listed[-1])
    return listed

  @property
  def variables_prefix(self) -> str:
    """The path of the checkpoint in the SavedModel."""
    return os.path.join(self.folder, "variables", "variables")


def export_whole(
  estimator: tf.estimator.Estimator,
  folder: str,
  serving_input_receiver_fn: Callable[[], Any],
  checkpoint_path: str | None,
) -> WholeModel:
  """Lets an Estimator export its model, and returns it.

  Args:
    estimator: A trained Estimator whose model is sharded.
    folder: Where the SavedModel is to be.
    serving_input_receiver_fn: As for `Estimator.export_saved_model`.
    checkpoint_path: As for it.

  Raises:
    ValueError: If the model is not sharded, or a signature has something that
      is no tensor.
  """
  graphs = []

  def remembering_receiver_fn() -> Any:
    graphs.append(tf.compat.v1.get_default_graph())
    return serving_input_receiver_fn()

  path = export.export_saved_model(
    estimator, folder, remembering_receiver_fn, checkpoint_path=checkpoint_path
  )
  plan = sharding_plan.get_plan(graphs[-1])
  if plan is None or not plan.placement.ops:
    raise ValueError(
      "export_stages exports the stages of a sharded model, but nothing placed "
      "the Estimator's ops on stages; shard its model_fn by "
      "estimator_mp.shard_model_fn, or the Estimator by "
      "estimator_mp.shard_estimator"
    )
  (meta_graph,) = export.read_saved_model(path).meta_graphs
  placement = plan.placement
  whole = WholeModel(
    path, graphs[-1], meta_graph, placement.ops, len(placement.stages)
  )
  _check_signatures(whole)
  return whole


def _check_signatures(whole: WholeModel) -> None:
  """Raises if a signature has something that is no tensor."""
  for name, signature in whole.signatures.items():
    for side in (signature.inputs, signature.outputs):
      for key, info in side.items():
        if not info.name:
          raise ValueError(
            f"{key} of the signature {name} is not a dense tensor, and stages "
            "are sent dense ones; give its indices, values and shape as three "
            "tensors, or serialized examples"
          )
