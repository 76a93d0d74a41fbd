"""What the log says while a graph is being built."""

import threading
from unittest import mock

from estimator_mp import notices
from estimator_mp.session import build_progress

import tensorflow as tf
from absl.testing import absltest


class BuildProgressTest(absltest.TestCase):
  def test_is_shown_every_few_seconds(self):
    texts, shown_twice = [], threading.Event()

    def show(text):
      texts.append(text)
      if len(texts) == 2:
        shown_twice.set()

    self.enter_context(mock.patch.object(notices, "show", show))
    self.enter_context(
      mock.patch.object(build_progress, "_EVERY_SECONDS", 0.01)
    )
    graph = tf.Graph()
    with graph.as_default(), build_progress.shown(graph):
      for _ in range(3):
        tf.compat.v1.placeholder(tf.float32)
      self.assertTrue(shown_twice.wait(30))
    # The thread ends with the graph.
    self.assertNotIn(
      "build_progress", [thread.name for thread in threading.enumerate()]
    )
    self.assertRegex(
      texts[1], r"^Building the graph: 3 ops after \d+ s$", texts
    )

  def test_is_not_shown_of_what_is_quick(self):
    show = self.enter_context(mock.patch.object(notices, "show"))
    with build_progress.shown(tf.Graph()):
      pass
    show.assert_not_called()


if __name__ == "__main__":
  absltest.main()
