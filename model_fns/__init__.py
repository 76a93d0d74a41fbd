"""Factories of model_fns that span devices: the table of contents."""

from model_fns.batch_split import batch_split
from model_fns.layer_split import layer_split

__all__ = ["batch_split", "layer_split"]
