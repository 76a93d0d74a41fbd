"""Lines of the log while a large graph is being built."""

import contextlib
import threading
import time
from collections.abc import Iterator

from estimator_mp import notices

import tensorflow as tf

_EVERY_SECONDS = 5.0


@contextlib.contextmanager
def shown(graph: tf.Graph) -> Iterator[None]:
  """Logs how far a graph is, every five seconds that it takes.

  Args:
    graph: The graph that is built meanwhile.

  Yields:
    None.
  """
  started = time.monotonic()
  is_built = threading.Event()

  def show() -> None:
    while not is_built.wait(_EVERY_SECONDS):
      seconds = time.monotonic() - started
      notices.show(
        f"Building the graph: {graph.version:,} ops after {seconds:.0f} s"
      )

  thread = threading.Thread(target=show, name="build_progress", daemon=True)
  thread.start()
  try:
    yield
  finally:
    is_built.set()
    thread.join()
