"""Variables that are made of several, `tf.get_variable(partitioner=...)`.

Tested on TensorFlow 2.15.1 and 2.21.0; their class is not public.
"""

from typing import Any

from tensorflow.python.ops import variables


def parts(variable: Any) -> list[Any]:
  """Returns the variables that one is made of; a list of them as it is."""
  if isinstance(variable, (list, variables.PartitionedVariable)):
    return list(variable)
  return [variable]
