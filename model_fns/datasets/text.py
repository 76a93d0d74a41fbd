"""Text as bytes: the docstrings of Python's own modules, or your files.

A token is a byte, so that any text has the same vocabulary of 256.
"""

import ast
import dataclasses
import pathlib
import sysconfig
from collections.abc import Callable

from model_fns.datasets import dataset

import numpy as np
import tensorflow as tf

VOCABULARY = 256

# Of the modules, or files, in the order of their names, one of so many is held
# out.
_HELD_OUT_EVERY = 10
_END = b"\n\n"


@dataclasses.dataclass(frozen=True)
class Text:
  """Windows of a text, validated, ready for `tf.estimator`.

  The batches of the input functions depend on the seed and the batch size only,
  never on the mesh.

  Attributes:
    name: The name of the text, for people.
    length: The bytes of a window, each of which is predicted by those before
      it; the window's first one by the byte before the window.
    train: The text to train on, uint8 [n].
    test: The text that is held out, uint8 [n].
  """

  name: str
  length: int
  train: np.ndarray
  test: np.ndarray

  def train_input_fn(
    self, batch_size: int, seed: int
  ) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for training.

    Args:
      batch_size: Windows per batch, at least 1; every batch is full.
      seed: Fixes the order of the windows.

    Returns:
      A function without arguments that returns an endless `tf.data.Dataset` of
      ({"tokens": int32 [batch_size, length]}, int32 [batch_size, length]): the
      bytes of a window, and those that follow each of them.

    Raises:
      ValueError: If there are fewer windows than a batch has.
    """
    count = _num_windows(self.train, self.length)
    if not 1 <= batch_size <= count:
      raise ValueError(
        f"batch_size={batch_size} does not fit the {count:,} windows of "
        f"{self.length} bytes of {self.name}; use 1 to {count:,}"
      )

    def input_fn() -> tf.data.Dataset:
      # Numbers, not windows: checkpoints have what is in the buffer.
      numbers = tf.data.Dataset.range(count).shuffle(count, seed=seed).repeat()
      return self._batches(self.train, numbers, batch_size, True)

    return input_fn

  def test_input_fn(self, batch_size: int) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for evaluation: each held-out window once.

    Args:
      batch_size: Windows per batch, at least 1; the last batch may be smaller.

    Returns:
      A function as that of `train_input_fn`, but that it ends.

    Raises:
      ValueError: batch_size is less than 1.
    """
    if batch_size < 1:
      raise ValueError(f"batch_size={batch_size} is too small; use at least 1")

    def input_fn() -> tf.data.Dataset:
      count = _num_windows(self.test, self.length)
      numbers = tf.data.Dataset.range(count)
      return self._batches(self.test, numbers, batch_size, False)

    return input_fn

  def serving_input_receiver_fn(
    self,
  ) -> tf.estimator.export.ServingInputReceiver:
    """Makes the serving input of an exported model; pass it, uncalled.

    Returns:
      A `tf.estimator.export.ServingInputReceiver` that receives texts to go on
      with, {"text": string [None]}, each of at least a byte.
    """
    received = tf.compat.v1.placeholder(tf.string, [None], name="text")
    return tf.estimator.export.ServingInputReceiver(
      features=prompts(received), receiver_tensors={"text": received}
    )

  def _batches(
    self,
    text: np.ndarray,
    numbers: tf.data.Dataset,
    batch_size: int,
    drop_remainder: bool,
  ) -> tf.data.Dataset:
    """Returns batches of the windows that have these numbers."""

    def as_features(
      batch: tf.Tensor,
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
      places = batch[:, tf.newaxis] * self.length + tf.range(
        self.length + 1, dtype=tf.int64
      )
      tokens = tf.cast(tf.gather(text, places), tf.int32)
      return {"tokens": tokens[:, :-1]}, tokens[:, 1:]

    batches = numbers.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(as_features).prefetch(tf.data.AUTOTUNE)

  def unigram_perplexity(self) -> float:
    """Returns the perplexity per held-out byte of how frequent each byte is."""
    counts = np.bincount(self.train, minlength=VOCABULARY) + 1.0
    return self._perplexity(np.tile(counts, [VOCABULARY, 1]))

  def bigram_perplexity(self) -> float:
    """Returns the same of how frequently each byte follows each other one."""
    unigrams = np.bincount(self.train, minlength=VOCABULARY) + 1.0
    pairs = np.zeros([VOCABULARY, VOCABULARY])
    np.add.at(pairs, (self.train[:-1], self.train[1:]), 1.0)
    # Unseen pairs count as a few bytes of any kind.
    return self._perplexity(pairs + unigrams / unigrams.sum())

  def _perplexity(self, counts: np.ndarray) -> float:
    """Returns the perplexity of the bytes that are predicted in evaluation.

    Args:
      counts: How likely each byte is after each other one, times any number
        above 0; [256, 256].
    """
    likely = counts / counts.sum(axis=1, keepdims=True)
    end = _num_windows(self.test, self.length) * self.length
    chosen = likely[self.test[:end], self.test[1 : end + 1]]
    return float(np.exp(-np.log(chosen).mean()))


def prompts(texts: tf.Tensor) -> dict[str, tf.Tensor]:
  """Returns texts as a decoder's features to go on with.

  Args:
    texts: Strings of any lengths, [batch].

  Returns:
    "tokens", int32 [batch, length of the longest], and "length", int32 [batch].
  """
  characters = tf.strings.bytes_split(texts)
  found = tf.io.decode_raw(characters.flat_values, tf.uint8)
  tokens = characters.with_flat_values(tf.cast(found[:, 0], tf.int32))
  lengths = tf.cast(characters.row_lengths(), tf.int32)
  return {"tokens": tokens.to_tensor(), "length": lengths}


def python_docs(length: int = 64) -> Text:
  """Returns the documentation strings of Python's standard library.

  They are read from the sources of this Python's top-level modules, which are
  not imported. So each version of Python has a text of its own; 3.11 has 0.9
  MB. The strings of each tenth module are held out.

  Args:
    length: The bytes of a window.

  Raises:
    DatasetError: If this Python has no sources.
  """
  folder = pathlib.Path(sysconfig.get_path("stdlib"))
  texts = [_documentation(path) for path in sorted(folder.glob("*.py"))]
  texts = [text for text in texts if text]
  hint = "use a Python that has them, or --dataset=text with files of your own"
  return _split("python_docs", texts, length, f"modules in {folder}", hint)


def files(data_dir: str | None, length: int = 64) -> Text:
  """Returns the text of the files in a directory whose names end with .txt.

  Each tenth file, by name, is held out.

  Args:
    data_dir: The directory.
    length: The bytes of a window.

  Raises:
    DatasetError: If there are not two files with as much text as a window.
  """
  hint = "pass a directory with two or more as --data_dir"
  if data_dir is None:
    raise dataset.DatasetError(f"dataset=text has no files; {hint}")
  try:
    paths = sorted(pathlib.Path(data_dir).glob("*.txt"))
    texts = [path.read_bytes() for path in paths]
  except OSError as error:
    raise dataset.DatasetError(
      f"data_dir={data_dir} cannot be read ({error.strerror}); {hint}"
    ) from error
  return _split("text", texts, length, f"files *.txt in {data_dir}", hint)


def _split(
  name: str, texts: list[bytes], length: int, what: str, hint: str
) -> Text:
  """Returns texts as one to train on, and one that is held out."""
  every = min(_HELD_OUT_EVERY, max(len(texts), 1))
  held_out = texts[every - 1 :: every]
  kept = [text for i, text in enumerate(texts, start=1) if i % every]
  train, test = (
    np.frombuffer(_END.join(part), np.uint8) for part in (kept, held_out)
  )
  for part in (train, test):
    if not _num_windows(part, length):
      raise dataset.DatasetError(
        f"the {len(texts)} {what} are too few: {len(part)} bytes to train or "
        f"to hold out, less than a window of {length + 1}; {hint}"
      )
  return Text(name, length, train, test)


def _documentation(path: pathlib.Path) -> bytes:
  """Returns the documentation strings of a module, in their order.

  Args:
    path: Its source, which this Python can parse.
  """
  found: list[str] = []
  functions = ast.FunctionDef | ast.AsyncFunctionDef
  for node in ast.walk(ast.parse(path.read_bytes())):
    if isinstance(node, ast.Module | ast.ClassDef | functions):
      text = ast.get_docstring(node)
      if text:
        found.append(text)
  return _END.join(text.encode("utf-8", "replace") for text in found)


def _num_windows(text: np.ndarray, length: int) -> int:
  """Returns how many windows there are, with a byte after each."""
  return max(len(text) - 1, 0) // length
