"""tf.contrib.learn.preprocessing: words and categories as numbers."""

from compat.contrib import absent
from compat.contrib.learn.preprocessing.categorical import (
  CategoricalProcessor,
  CategoricalVocabulary,
)
from compat.contrib.learn.preprocessing.text import (
  TOKENIZER_RE,
  ByteProcessor,
  VocabularyProcessor,
  tokenizer,
)

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__, ("categorical", "text"))

__all__ = [
  "TOKENIZER_RE",
  "ByteProcessor",
  "CategoricalProcessor",
  "CategoricalVocabulary",
  "VocabularyProcessor",
  "setup_processor_data_feeder",
  "tokenizer",
]


def setup_processor_data_feeder(x):  # type: ignore[no-untyped-def]
  """Returns x, where it is not of dask, as a processor iterates over it."""
  return x.compute() if hasattr(x, "compute") else x
