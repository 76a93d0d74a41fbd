"""The picture of segments, and the sentences that the guide says of them."""

import pathlib

from estimator_mp.observe import canvas
from tests.docs import guides
from tools import draw_segments

from absl.testing import absltest

_ROOT = pathlib.Path(__file__).parents[2]


class SegmentsTest(absltest.TestCase):
  def test_the_picture(self):
    folder = self.create_tempdir().full_path
    draw_segments.main([f"--root={folder}"])
    drawn = pathlib.Path(folder, "docs/pictures/segments.png")
    self.assertEqual(drawn.read_bytes()[1:4], b"PNG")
    self.assertTrue((_ROOT / "docs/pictures/segments.png").exists())
    self.assertIn("pictures/segments.png", guides.read("docs/pipeline.md"))
    self.assertTrue(canvas.is_available())

  def test_a_segment_begins_when_all_micro_batches_have_ended_the_last(self):
    three, one = draw_segments.CASES.values()
    once = [x for x in three if x.micro_batch is None]
    self.assertLen(once, 2)
    for block in once:
      before = [x for x in three if x.begin < block.begin]
      self.assertLessEqual(max(x.begin + x.length for x in before), block.begin)
      self.assertTrue(
        all(x.begin > block.begin for x in three if x not in [*before, block])
      )
    end = max(x.begin + x.length for x in one)
    self.assertLess(end, max(x.begin + x.length for x in three))
    for blocks in (three, one):
      for stage in range(2):
        own = sorted(x.begin for x in blocks if x.stage == stage)
        self.assertLen({*own}, len(own))


if __name__ == "__main__":
  absltest.main()
