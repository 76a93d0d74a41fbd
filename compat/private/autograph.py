"""How AutoGraph, through which strategies call a model_fn, treats errors.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `ag_pass_through` on an exception keeps AutoGraph from putting its own frames
  into the message.
"""


def without_frames(error: Exception) -> Exception:
  """Returns an error whose message stays as it is within AutoGraph.

  Args:
    error: The error; it is marked.
  """
  vars(error)["ag_pass_through"] = True
  return error
