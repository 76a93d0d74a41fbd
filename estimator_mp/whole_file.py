"""Whole files: no reader sees half of one, and a full disk leaves none."""

import os

import tensorflow as tf


def write_whole(path: str, content: str | bytes) -> None:
  """Makes or replaces a file in one step.

  Args:
    path: Its path.
    content: What is to be in it. If it cannot be written, the file stays what
      it was.
  """
  temporary = f"{path}.{os.getpid()}.tmp"
  mode = "wb" if isinstance(content, bytes) else "w"
  try:
    with tf.io.gfile.GFile(temporary, mode) as file:
      file.write(content)
    tf.io.gfile.rename(temporary, path, overwrite=True)
  except Exception:
    if tf.io.gfile.exists(temporary):
      tf.io.gfile.remove(temporary)
    raise
