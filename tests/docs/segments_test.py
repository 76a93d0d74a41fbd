"""The picture of segments, and what the guide says that a run logs of them."""

import dataclasses
import pathlib
import re
import textwrap

import estimator_mp
from estimator_mp.observe import drawing
from tests.docs import guide_case, guides
from tests.estimator_mp import parts
from tools import draw_segments

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_ROOT = pathlib.Path(__file__).parents[2]


def _shown():
  """Returns what the section of the guide shows of logs and errors."""
  section = guides.read("docs/pipeline.md").split("\n## Segments\n")[1]
  section = re.sub(r"```.*?```", "", section.split("\n## ")[0], flags=re.S)
  found = re.findall(r"(?:^    .*\n)+", section, re.M)
  return [textwrap.dedent(block).strip() for block in found]


def _of_any_size():
  """Returns batches of which the graph knows no size."""

  def batches():
    yield np.zeros([8, 5, 3], np.float32), np.zeros([8, 1], np.float32)

  signature = (
    tf.TensorSpec([None, None, None]),
    tf.TensorSpec([None, 1]),
  )
  return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _reshaped(features, labels, mode):
  """As the guide says: a dimension is unknown that is none of examples."""
  x, v1 = features, tf.compat.v1
  net = tf.reshape(x, [-1, tf.shape(x)[1], 3])
  net = v1.layers.dense(v1.layers.dense(net, 8), 1)
  loss = tf.reduce_mean((tf.reduce_max(net, 1) - labels) ** 2)
  return parts.spec(mode, loss)


class SegmentsTest(guide_case.GuideCase):
  def test_the_picture(self):
    folder = self.create_tempdir().full_path
    draw_segments.main([f"--root={folder}"])
    drawn = pathlib.Path(folder, "docs/pictures/segments.png")
    self.assertEqual(drawn.read_bytes()[1:4], b"PNG")
    self.assertTrue((_ROOT / "docs/pictures/segments.png").exists())
    self.assertIn("pictures/segments.png", guides.read("docs/pipeline.md"))
    drawing.check_available()

  def test_a_segment_begins_when_all_micro_batches_have_ended_the_last(self):
    three, one = draw_segments.CASES.values()
    ends = [max(x.begin + x.length for x in case) for case in (three, one)]
    self.assertLess(ends[1], ends[0])
    for block in (x for x in three if x.micro_batch is None):
      before = [x for x in three if x.begin < block.begin]
      self.assertLessEqual(max(x.begin + x.length for x in before), block.begin)

  def test_the_log_is_what_the_guide_shows(self):
    (number,) = [
      number
      for number, x in enumerate(guides.programs("docs/pipeline.md"))
      if "levels" in x
    ]
    names = guides.before_training("docs/pipeline.md", number)
    config = names["config"]
    three, one, error, of_sizes = _shown()
    self.assertEqual(self._log(names, config), three)
    said = dataclasses.replace(config, per_example=["^levels_"])
    self.assertIn('`per_example=["^levels_"]`', guides.read("docs/pipeline.md"))
    self.assertEqual(self._log(names, said), one)
    with self.assertRaisesWithLiteralMatch(ValueError, error):
      self._log(names, dataclasses.replace(config, fallback="error"))
    names["input_fn"] = _of_any_size
    names["model_fn"] = _reshaped
    with self.assertRaisesWithLiteralMatch(ValueError, of_sizes):
      self._log(names, dataclasses.replace(config, fallback="error"))

  def _log(self, names, config):
    """Returns what training with a configuration logs of segments."""
    sharded = estimator_mp.shard_model_fn(names["model_fn"], config)
    with tf.Graph().as_default(), self.assertLogs("tensorflow") as logged:
      tf.compat.v1.train.create_global_step()
      data = tf.compat.v1.data.make_one_shot_iterator(names["input_fn"]())
      sharded(*data.get_next(), "train")
    texts = [record.getMessage() for record in logged.records]
    (found,) = [x for x in texts if x.startswith("Slices of the batch: ")]
    return found


if __name__ == "__main__":
  absltest.main()
