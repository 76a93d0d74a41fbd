"""Tests of what pictures have in common."""

from estimator_mp.observe import canvas

from absl.testing import absltest, parameterized


class TicksTest(parameterized.TestCase):
  @parameterized.parameters(
    (5.3, 8, ["0", "1", "2", "3", "4", "5"]),
    (101e6, 6, ["0", "2e+07", "4e+07", "6e+07", "8e+07", "1e+08"]),
    (0.3, 3, ["0", "0.1", "0.2", "0.3"]),
    (0.3, 2, ["0", "0.2"]),
    (1, 1, ["0", "1"]),
    (9, 1, ["0"]),
  )
  def test_are_round(self, end, most, ticks):
    self.assertEqual([f"{x:g}" for x in canvas.ticks(end, most)], ticks)


if __name__ == "__main__":
  absltest.main()
