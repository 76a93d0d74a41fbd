"""Tests of the picture of capacities."""

import pathlib
import re

from estimator_mp.cli.sizing import capacity_picture

from absl.testing import absltest


class PictureTest(absltest.TestCase):
  def _texts(self, is_trained):
    folder = self.create_tempdir().full_path
    paths = capacity_picture.write_pictures(
      "net", [1, 2, 4], [1_300_000, 2_500_000, 5_100_000], is_trained, folder
    )
    self.assertEqual(
      [pathlib.Path(path).name for path in paths],
      ["capacity.png", "capacity.svg"],
    )
    return re.findall("<!-- (.*) -->", pathlib.Path(paths[1]).read_text())

  def test_both_axes_have_numbers(self):
    texts = self._texts([False, False, False])
    parameters = ["0", "1.00 M", "2.00 M", "3.00 M", "4.00 M", "5.00 M"]
    self.assertContainsSubset(["stages", "1", "2", "4", *parameters], texts)
    self.assertIn("parameters of the largest model that fits", texts)

  def test_says_what_is_filled_if_something_is(self):
    self.assertIn(
      "parameters of the largest model that fits; filled: trained, too",
      self._texts([True, False, False]),
    )


if __name__ == "__main__":
  absltest.main()
