"""Words of documents as numbers."""

import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compat.contrib.learn.preprocessing.categorical import CategoricalVocabulary

import numpy as np
import tensorflow as tf

# A run of capitals, a word within CamelCase, or letters, digits, ' and -.
TOKENIZER_RE = re.compile(
  r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE
)

Tokenizer = Callable[[Iterable[str]], Iterable[list[str]]]


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
  """Gives the words of each document."""
  for document in iterator:
    yield TOKENIZER_RE.findall(document)


class ByteProcessor:
  """Bytes of documents, cut or padded with zeros to one length."""

  def __init__(self, max_document_length: int):
    """Makes the processor.

    Args:
      max_document_length: how many bytes are kept.
    """
    self.max_document_length = max_document_length

  def fit(self, x: Any) -> "ByteProcessor":
    """Does nothing, and returns the processor."""
    return self

  def fit_transform(self, x: Any) -> Iterator[Any]:
    """Does as transform."""
    return self.transform(x)

  def transform(self, x: Iterable[Any]) -> Iterator[Any]:
    """Gives the bytes of each document, [max_document_length] of uint8."""
    for document in x:
      encoded = tf.compat.as_bytes(document)[: self.max_document_length]
      padded = encoded.ljust(self.max_document_length, b"\0")
      yield np.frombuffer(padded, np.uint8)

  def reverse(self, x: Iterable[Any]) -> Iterator[Any]:
    """Gives the documents of bytes."""
    for numbers in x:
      encoded = np.trim_zeros(np.asarray(numbers, np.uint8), "b").tobytes()
      yield encoded.decode("utf-8", "replace")


class VocabularyProcessor:
  """Numbers of words, cut or padded with zeros to one length."""

  def __init__(
    self,
    max_document_length: int,
    min_frequency: int = 0,
    vocabulary: CategoricalVocabulary | None = None,
    tokenizer_fn: Tokenizer | None = None,
  ):
    """Makes the processor.

    Args:
      max_document_length: how many words are kept.
      min_frequency: leaves out words that were not counted more often.
      vocabulary: the numbers of words; a new one by default.
      tokenizer_fn: gives the words of documents; `tokenizer` by default.
    """
    self.max_document_length = max_document_length
    self.min_frequency = min_frequency
    self.vocabulary_ = (
      CategoricalVocabulary() if vocabulary is None else vocabulary
    )
    self._tokenizer: Tokenizer = tokenizer_fn or tokenizer

  def fit(
    self, raw_documents: Iterable[str], unused_y: Any = None
  ) -> "VocabularyProcessor":
    """Counts the words of documents, and returns the processor."""
    del unused_y
    for words in self._tokenizer(raw_documents):
      for word in words:
        self.vocabulary_.add(word)
    if self.min_frequency > 0:
      self.vocabulary_.trim(self.min_frequency)
    self.vocabulary_.freeze()
    return self

  def fit_transform(
    self, raw_documents: Iterable[str], unused_y: Any = None
  ) -> Iterator[Any]:
    """Counts the words of documents and returns their numbers."""
    self.fit(raw_documents)
    return self.transform(raw_documents)

  def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
    """Gives the numbers of each document, [max_document_length] of int64."""
    for words in self._tokenizer(raw_documents):
      numbers = np.zeros(self.max_document_length, np.int64)
      for index, word in enumerate(words[: self.max_document_length]):
        numbers[index] = self.vocabulary_.get(word)
      yield numbers

  def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
    """Gives the words of numbers, with spaces between."""
    for numbers in documents:
      yield " ".join(self.vocabulary_.reverse(number) for number in numbers)

  def save(self, filename: str) -> None:
    """Writes the processor to a file, pickled."""
    with tf.io.gfile.GFile(filename, "wb") as file:
      file.write(pickle.dumps(self))

  @classmethod
  def restore(cls, filename: str) -> Any:
    """Reads a processor that save has written; of trusted files only."""
    with tf.io.gfile.GFile(filename, "rb") as file:
      return pickle.loads(file.read())
