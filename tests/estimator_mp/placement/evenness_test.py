"""A line says if one stage has nearly all of the time or of the memory."""

from estimator_mp.placement import evenness

from absl.testing import absltest, parameterized


class EvennessTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("even", [1.0, 1.0], [5.0, 5.0]),
    ("up_to_nine_tenths", [1.0, 9.0], [90.0, 10.0]),
    ("one_stage", [1.0], [5.0]),
    ("nothing", [0.0, 0.0], [0.0, 0.0]),
  )
  def test_nothing_is_said(self, seconds, memory_bytes):
    self.assertEmpty(evenness.uneven_lines(seconds, memory_bytes))

  def test_of_time(self):
    (line,) = evenness.uneven_lines([1.0, 19.0], [1.0, 1.0])
    self.assertEqual(
      line,
      "stage 1 takes 95% of the planned time, so the other stages mostly "
      "wait: use fewer stages and a data axis, or a model axis that splits its "
      "layers",
    )

  def test_of_memory(self):
    (line,) = evenness.uneven_lines([1.0, 1.0], [97e6, 2e6])
    self.assertEqual(
      line,
      "stage 0 has 98% of the planned memory, 97.0 MB: a memory_limit below "
      "that moves layers to other stages even if steps get slower, and a model "
      "axis splits variables",
    )

  def test_of_both(self):
    self.assertLen(evenness.uneven_lines([0.0, 1.0], [1.0, 0.0]), 2)


if __name__ == "__main__":
  absltest.main()
