"""Categories as numbers."""

import collections
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np


class CategoricalVocabulary:
  """Numbers categories in the order in which they come; 0 is unknown."""

  # What is pickled has 1.15's attributes.
  def __init__(
    self, unknown_token: Hashable = "<UNK>", support_reverse: bool = True
  ):
    """Makes a vocabulary of the unknown category.

    Args:
      unknown_token: its name.
      support_reverse: whether names can be looked up.
    """
    self._unknown_token = unknown_token
    self._mapping: dict[Any, int] = {unknown_token: 0}
    self._support_reverse = support_reverse
    if support_reverse:
      self._reverse_mapping: list[Any] = [unknown_token]
    self._freq: dict[Any, int] = collections.defaultdict(int)
    self._freeze = False

  def __len__(self) -> int:
    return len(self._mapping)

  def freeze(self, freeze: bool = True) -> None:
    """Says whether new categories are unknown from now on."""
    self._freeze = freeze

  def get(self, category: Any) -> int:
    """Returns the number of a category, a new one unless it is frozen."""
    if category not in self._mapping:
      if self._freeze:
        return 0
      self._mapping[category] = len(self._mapping)
      if self._support_reverse:
        self._reverse_mapping.append(category)
    return self._mapping[category]

  def add(self, category: Any, count: int = 1) -> None:
    """Counts a category, unless it is unknown."""
    if self.get(category) > 0:
      self._freq[category] += count

  def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
    """Numbers the categories anew, the most frequent first.

    Args:
      min_frequency: leaves out what was not counted more often.
      max_frequency: leaves out what was counted so often; -1 is no limit.
    """
    # Of two as frequent, the smaller; numbers come before words.
    by_name = sorted(
      self._freq.items(), key=lambda one: (isinstance(one[0], str), one[0])
    )
    kept = [
      (category, count)
      for category, count in sorted(by_name, key=lambda one: -one[1])
      if count > min_frequency and (max_frequency <= 0 or count < max_frequency)
    ]
    self._freq = dict(kept)
    self._mapping = {self._unknown_token: 0}
    self._mapping.update(
      {category: index for index, (category, _) in enumerate(kept, 1)}
    )
    if self._support_reverse:
      self._reverse_mapping = list(self._mapping)

  def reverse(self, class_id: int) -> Any:
    """Returns the name of a category.

    Raises:
      ValueError: if the vocabulary was made without names.
    """
    if not self._support_reverse:
      raise ValueError(
        "This vocabulary was made with support_reverse=False; it has no names."
      )
    return self._reverse_mapping[class_id]


class CategoricalProcessor:
  """Numbers the categories of each column."""

  def __init__(
    self, min_frequency: int = 0, share: bool = False, vocabularies: Any = None
  ):
    """Makes the processor.

    Args:
      min_frequency: leaves out what was not counted more often.
      share: whether all columns have one vocabulary.
      vocabularies: those of the columns; new ones by default.
    """
    self.min_frequency = min_frequency
    self.share = share
    self.vocabularies_ = vocabularies

  def freeze(self, freeze: bool = True) -> None:
    """Says whether new categories are unknown from now on."""
    for vocabulary in self.vocabularies_:
      vocabulary.freeze(freeze)

  def fit(
    self, x: Iterable[Any], unused_y: Any = None
  ) -> "CategoricalProcessor":
    """Counts the categories.

    Args:
      x: examples, each with as many columns.
      unused_y: is not used.

    Returns:
      The processor.
    """
    del unused_y
    for row in x:
      if self.vocabularies_ is None:
        made = (
          [CategoricalVocabulary()] * len(row)
          if self.share
          else [CategoricalVocabulary() for _ in row]
        )
        self.vocabularies_ = made
      for vocabulary, category in zip(self.vocabularies_, row, strict=False):
        if not _is_nan(category):
          vocabulary.add(category)
    if self.min_frequency > 0:
      for vocabulary in self.vocabularies_ or []:
        vocabulary.trim(self.min_frequency)
    self.freeze()
    return self

  def fit_transform(self, x: Any, unused_y: Any = None) -> Iterator[Any]:
    """Counts the categories and returns their numbers."""
    self.fit(x)
    return self.transform(x)

  def transform(self, x: Iterable[Any]) -> Iterator[Any]:
    """Gives the numbers of each example's categories, 0 for an unknown one."""
    self.freeze()
    for row in x:
      numbers = np.zeros(len(row), np.int64)
      for index, category in enumerate(row):
        if not _is_nan(category):
          numbers[index] = self.vocabularies_[index].get(category)
      yield numbers


def _is_nan(category: Any) -> bool:
  return isinstance(category, float) and bool(np.isnan(category))
