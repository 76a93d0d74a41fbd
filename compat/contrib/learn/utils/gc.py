"""Which exports of a folder to keep: functions from paths to paths."""

import heapq
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Path(NamedTuple):
  """An export.

  Attributes:
    path: its folder.
    export_version: its number, the time in most cases.
  """

  path: Any
  export_version: int | None


Chooser = Callable[[list[Path]], list[Path]]


def largest_export_versions(n: int) -> Chooser:
  """Returns a function that keeps the n latest exports."""

  def keep(paths: list[Path]) -> list[Path]:
    latest = heapq.nlargest(n, enumerate(paths), key=_version_and_order)
    return sorted(path for _, path in latest)

  return keep


def _version_and_order(numbered: tuple[int, Path]) -> tuple[int, int]:
  return numbered[1].export_version or 0, numbered[0]


def one_of_every_n_export_versions(n: int) -> Chooser:
  """Returns a function that keeps the latest export of each n versions."""

  def keep(paths: list[Path]) -> list[Path]:
    latest: dict[int, Path] = {}
    for path in sorted(paths, key=lambda one: one.export_version or 0):
      # Versions 1 to n are one interval, and 0 belongs to it.
      interval = math.floor(((path.export_version or 0) - 1) / n)
      latest[max(interval, 0)] = path
    return sorted(latest.values())

  return keep


def mod_export_version(n: int) -> Chooser:
  """Returns a function that keeps exports whose version n divides."""

  def keep(paths: list[Path]) -> list[Path]:
    return sorted(one for one in paths if (one.export_version or 0) % n == 0)

  return keep


def union(lf: Chooser, rf: Chooser) -> Chooser:
  """Returns a function that keeps what one of two keeps."""

  def keep(paths: list[Path]) -> list[Path]:
    return sorted({*lf(paths), *rf(paths)})

  return keep


def negation(f: Chooser) -> Chooser:
  """Returns a function that keeps what another does not."""

  def keep(paths: list[Path]) -> list[Path]:
    return sorted(set(paths) - set(f(paths)))

  return keep


def get_paths(
  base_dir: Any, parser: Callable[[Path], Path | None]
) -> list[Path]:
  """Returns the exports of a folder, the oldest first.

  Args:
    base_dir: the folder.
    parser: completes a Path without a version, or returns None for a path that
      is no export.
  """
  if not tf.io.gfile.exists(base_dir):
    return []
  found = []
  for name in tf.io.gfile.listdir(base_dir):
    joined = os.path.join(
      tf.compat.as_str_any(base_dir), tf.compat.as_str_any(name).rstrip("/")
    )
    parsed = parser(Path(joined, None))
    if parsed is not None:
      found.append(parsed)
  return sorted(found, key=lambda one: one.export_version or 0)
