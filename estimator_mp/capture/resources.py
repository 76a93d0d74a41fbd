"""Resources: variables of a program are handles, however it makes them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from compat.private import reference_variables

import tensorflow as tf


@contextlib.contextmanager
def all_resources() -> Iterator[None]:
  """Makes each variable of the default graph a resource.

  Programs that switch TensorFlow 2's behaviour off get references
  (`VariableV2`), whose value is read by an edge of the graph that is also a
  way to write it. All that reads the edge reads the variable's memory, also
  the fetch of a hook, and an update changes it below them. A resource is read
  by an op, whose value stays: so it can be split, and slices and fetches read
  it before the step updates it, in any order. Names and checkpoints are the
  same, and so is the variable's interface.

  Yields:
    None.
  """

  def create(next_creator: Callable[..., Any], **options: Any) -> Any:
    # Slots ask for their variable's kind, which is a resource here.
    could_be_reference = not tf.compat.v1.resource_variables_enabled()
    if could_be_reference or options.get("use_resource") is False:
      return reference_variables.make(options)
    return next_creator(**{**options, "use_resource": True})

  with (
    tf.compat.v1.variable_creator_scope(create),
    reference_variables.optimizers_of_references(),
  ):
    yield
