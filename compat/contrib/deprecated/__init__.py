"""Names of tf.contrib.deprecated: summaries whose names are their tags."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)


def _collected(summary: Any, collections: Any) -> Any:
  keys = (
    [tf.compat.v1.GraphKeys.SUMMARIES] if collections is None else (collections)
  )
  for key in keys:
    tf.compat.v1.add_to_collection(key, summary)
  return summary


def scalar_summary(
  tags: Any, values: Any, collections: Any = None, name: str | None = None
) -> Any:
  """Returns a summary of numbers, each with its tag."""
  return _collected(
    tf.raw_ops.ScalarSummary(
      tags=tags, values=values, name=name or "ScalarSummary"
    ),
    collections,
  )


def histogram_summary(
  tag: Any, values: Any, collections: Any = None, name: str | None = None
) -> Any:
  """Returns a summary of how values are distributed."""
  return _collected(
    tf.raw_ops.HistogramSummary(
      tag=tag, values=values, name=name or "HistogramSummary"
    ),
    collections,
  )


def image_summary(
  tag: Any,
  tensor: Any,
  max_images: int = 3,
  collections: Any = None,
  name: str | None = None,
) -> Any:
  """Returns a summary of images."""
  return _collected(
    tf.raw_ops.ImageSummary(
      tag=tag, tensor=tensor, max_images=max_images, name=name or "ImageSummary"
    ),
    collections,
  )


def audio_summary(
  tag: Any,
  tensor: Any,
  sample_rate: Any,
  max_outputs: int = 3,
  collections: Any = None,
  name: str | None = None,
) -> Any:
  """Returns a summary of sounds."""
  rate = tf.cast(sample_rate, tf.float32)
  return _collected(
    tf.raw_ops.AudioSummaryV2(
      tag=tag,
      tensor=tensor,
      sample_rate=rate,
      max_outputs=max_outputs,
      name=name or "AudioSummary",
    ),
    collections,
  )


def merge_summary(
  inputs: Any, collections: Any = None, name: str | None = None
) -> Any:
  """Returns one summary of several."""
  merged = tf.raw_ops.MergeSummary(inputs=inputs, name=name or "MergeSummary")
  return _collected(merged, [] if collections is None else collections)


def merge_all_summaries(
  key: str = tf.compat.v1.GraphKeys.SUMMARIES,
) -> Any:
  """Returns one summary of all in a collection, None if it is empty."""
  found = tf.compat.v1.get_collection(key)
  return merge_summary(found) if found else None
