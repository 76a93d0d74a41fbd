"""Stands in for `tensorflow.python.tpu.tpu_embedding_gradient`.

TPUEstimator calls it for embeddings that live on a TPU; with use_tpu=False
nothing here is called. Each name refuses with the way out.
"""

from typing import Any

from compat.private.supplied import unsupported


def create_dummy_table_variables(*args: Any, **kwargs: Any) -> None:
  """Refuses: there is no embedding table on a TPU."""
  del args, kwargs
  unsupported.refuse_tpu("An embedding table on a TPU")


def hook_dummy_table_variables_to_activations(*args: Any, **kw: Any) -> None:
  """Refuses: there is no embedding table on a TPU."""
  del args, kw
  unsupported.refuse_tpu("An embedding table on a TPU")


def get_gradients_through_dummy_table_variables(*args: Any, **kw: Any) -> None:
  """Refuses: there is no embedding table on a TPU."""
  del args, kw
  unsupported.refuse_tpu("An embedding table on a TPU")
