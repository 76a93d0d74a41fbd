"""`python -m tests.compat.v1.names.write`: the tables of docs/tensorflow1.md.

A name that worked before and does not now is refused; --lose takes it.
"""

import pathlib
import sys
from typing import Any

from tests.compat.v1.names import comparison, page, uses

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "tensorflow1.md"


def as_it_should_be(written: str, tf: Any) -> str:
  """Returns the page with today's tables.

  Args:
    written: the page.
    tf: what a program of TensorFlow 1 sees.
  """
  return page.with_tables(
    written,
    comparison.outside_contrib(tf),
    comparison.contrib(tf),
    uses.most_used(tf),
  )


def real_version() -> str:
  """Returns today's TensorFlow's, which a program does not see."""
  return str(sys.modules["tensorflow"].__version__)


def main() -> None:
  """Writes the page."""
  import compat

  compat.install(v1=True, v1_packages=[__name__])
  import tensorflow as tf

  before = PAGE.read_text(encoding="utf-8")
  after = as_it_should_be(before, tf)
  lost = page.losses(before, after)
  if lost and "--lose" not in sys.argv:
    sys.exit("\n".join(["Names are lost; mend it, or run with --lose.", *lost]))
  PAGE.write_text(after, encoding="utf-8")


if __name__ == "__main__":
  main()
