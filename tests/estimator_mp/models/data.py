"""The examples that models of tests read: features, and labels of all kinds."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

VOCABULARY = 30
CLASSES = 4

_rng = np.random.RandomState(17)
EXAMPLES = 60
FEATURES = {
  "x": _rng.randn(EXAMPLES, 10).astype(np.float32),
  "image": _rng.randn(EXAMPLES, 8, 8, 3).astype(np.float32),
  "ids": _rng.randint(50, size=[EXAMPLES, 12]).astype(np.int32),
  "city": np.array([b"ulm", b"rom", b"oslo"])[
    _rng.randint(3, size=[EXAMPLES, 1])
  ],
  "item": _rng.randint(30, size=[EXAMPLES, 1]).astype(np.int64),
}
LABELS = _rng.randint(2, size=[EXAMPLES, 1]).astype(np.int32)
_WEIGHTS = 0.5 + np.random.RandomState(5).rand(EXAMPLES, 1)

# 60 examples of few features, and labels that are whole numbers or not.
ROWS: Mapping[str, np.ndarray] = {
  **FEATURES,
  "weight": _WEIGHTS.astype(np.float32),
  "label": LABELS,
  "real_label": LABELS.astype(np.float32),
}
# Of models that need few features.
BATCH = ({x: ROWS[x] for x in ("x", "ids", "item")}, ROWS["real_label"])


def input_fn():
  """60 examples in batches of 25: the last one is short."""
  return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(25)


def _records() -> dict[str, np.ndarray]:
  count = 40
  rng = np.random.default_rng(26)

  def real(*shape):
    return rng.standard_normal((count, *shape)).astype(np.float32)

  def whole(low, high, *shape):
    return rng.integers(low, high, (count, *shape)).astype(np.int32)

  x = real(12)
  score = x[:, :1] - x[:, 1:2] ** 2 + 0.1 * real(1)
  return {
    "x": x,
    "other": real(12),
    "ids": whole(0, VOCABULARY, 5),
    "seq": real(7, 4),
    "length": whole(1, 8),
    "words": whole(1, VOCABULARY, 7),
    "positions": whole(0, 7, 2),
    # 0 is no tag; the first one is always there.
    "tags": whole(0, VOCABULARY - 2, 5) * [1, 0, 1, 0, 1]
    + [1, 0, 0, 0, 0] * whole(1, 3, 1),
    "weight": 0.5 + rng.random(count, np.float32),
    "user": whole(0, 6),
    "rank": whole(0, 100),
    "label": (score > np.median(score)).astype(np.float32),
    "score": score,
    "class": whole(0, CLASSES),
    "next": whole(0, VOCABULARY, 5),
    # Of every third example nobody knows the label.
    "partial": np.where(whole(0, 3) == 0, -1, whole(0, CLASSES)).astype(
      "int32"
    ),
    "time": rng.exponential(1.0, count).astype(np.float32),
    "event": whole(0, 2).astype(np.float32),
  }


# 40 examples with features of many kinds: sequences, tags, ranks, times.
RECORDS: Mapping[str, np.ndarray] = _records()
