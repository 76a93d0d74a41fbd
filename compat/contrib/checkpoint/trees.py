"""Objects in a checkpoint, and their picture."""

from typing import Any

import tensorflow as tf


class UniqueNameTracker(tf.Module):
  """Keeps objects under names, which it makes unique."""

  def __init__(self) -> None:
    """Makes an empty one."""
    super().__init__()
    self._names: list[str] = []

  def track(self, trackable: Any, base_name: str) -> Any:
    """Keeps an object.

    Args:
      trackable: a variable, or what has some.
      base_name: its name; "_1" and so on is added to one that is taken.

    Returns:
      The object.

    Raises:
      ValueError: if it cannot be kept in a checkpoint.
    """
    if not isinstance(trackable, tf.__internal__.tracking.Trackable):
      raise ValueError(f"{trackable!r} cannot be kept in a checkpoint.")
    name, count = base_name, 0
    while name in self._names or hasattr(self, name):
      count += 1
      name = f"{base_name}_{count}"
    self._names.append(name)
    setattr(self, name, trackable)
    return trackable


def dot_graph_from_checkpoint(save_path: str) -> str:
  """Returns a picture of the objects in a checkpoint, in Graphviz's language.

  Args:
    save_path: the path of the checkpoint.
  """
  from compat.contrib import checkpoint

  graph = checkpoint.object_metadata(save_path)
  lines = ["digraph {"]
  for index, node in enumerate(graph.nodes):
    style = "" if index else ' color="red"'
    names = ", ".join(one.name for one in node.attributes)
    lines.append(f'N_{index} [shape=point label=""{style}];')
    if names:
      lines.append(f'N_{index}_A [shape=plaintext label="{names}"];')
      lines.append(f"N_{index} -> N_{index}_A;")
  for index, node in enumerate(graph.nodes):
    for child in node.children:
      lines.append(
        f'N_{index} -> N_{child.node_id} [label="{child.local_name}"];'
      )
    for slot in node.slot_variables:
      lines.append(
        f"N_{slot.slot_variable_node_id} -> "
        f'N_{slot.original_variable_node_id} [label="{slot.slot_name}"];'
      )
  return "\n".join([*lines, "}"])
