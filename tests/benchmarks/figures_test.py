"""Figures say what part of a bound they reach; the page has them in blocks."""

import contextlib
import io

from benchmarks import figures, page

from absl import flags
from absl.testing import absltest, flagsaver

_PAGE = """\
# Benchmarks

Written by hand.

<!-- figures of one, written by //benchmarks:all -->
old
<!-- end of figures -->

More by hand.

<!-- figures of two, written by //benchmarks:all -->
<!-- end of figures -->
"""


class FigureTest(absltest.TestCase):
  def test_the_part_of_a_bound_is_the_median_of_the_rounds(self):
    figure = figures.Figure("a", "ms", (2.0, 4.0, 8.0), (1.0, 1.0, 6.0))
    self.assertEqual(figure.value, 4.0)
    self.assertEqual(figure.reached, 2.0)
    least = figures.Figure("a", "", (2.0, 4.0), (1.0,), is_lower_better=True)
    self.assertEqual(least.reached, 0.375)
    self.assertIsNone(figures.Figure("a", "", (2.0,)).reached)

  def test_what_is_beyond_its_bound_is_a_fault_unless_noise_or_an_aim(self):
    beyond = figures.Figure("a", "", (2.0,), (1.5,))
    self.assertTrue(beyond.is_fault)
    self.assertIn(figures.FAULT, beyond.cells()[-1])
    for figure in (
      figures.Figure("a", "", (1.005,), (1.0,)),
      figures.Figure("a", "", (2.0,), (1.5,), is_aim=True),
      figures.Figure("a", "", (2.0,), (1.5,), is_lower_better=True),
      figures.Figure("a", "", (2.0,)),
    ):
      self.assertFalse(figure.is_fault)
      self.assertNotIn(figures.FAULT, "".join(figure.cells()))

  def test_nothing_is_all_of_a_bound_of_nothing(self):
    figure = figures.Figure("a", "", (0.0,), (0.0,), is_lower_better=True)
    self.assertEqual(figure.reached, 1.0)
    self.assertFalse(figure.is_fault)

  def test_a_figure_has_rounds_and_bounds_that_fit(self):
    with self.assertRaisesRegex(ValueError, "'a' has no round"):
      figures.Figure("a", "", ())
    with self.assertRaisesRegex(ValueError, "has 3 rounds and 2 bounds"):
      figures.Figure("a", "", (1.0, 2.0, 3.0), (1.0, 2.0))

  def test_figures_are_kept_as_they_are(self):
    found = [
      figures.ratio("a / b", [1.0, 3.0], [2.0, 2.0], bound=(1.0,), is_aim=True),
      figures.Figure("c", "steps/s", (1.25,)),
    ]
    path = self.create_tempfile().full_path
    with flagsaver.flagsaver(json=path):
      figures.save(found)
    self.assertEqual(figures.load(path), found)

  def test_without_the_flag_nothing_is_written(self):
    self.assertIsNone(flags.FLAGS.json)
    figures.save([])

  def test_they_are_printed_in_columns(self):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      figures.show(
        [
          figures.Figure("one", "ms", (1234.5, 2.0, 0.12345), (1.0,)),
          figures.Figure("other", "", (7.0,)),
        ]
      )
    self.assertEqual(
      printed.getvalue(),
      "       median (from, to)      bound  of it\n"
      f"one    2 ms (0.1235 to 1234)  1 ms   2.000, {figures.FAULT}\n"
      "other  7\n",
    )


class PageTest(absltest.TestCase):
  def test_a_block_is_replaced_and_what_is_around_it_stays(self):
    table = page.table("Here", [figures.Figure("a", "", (1.0,), (2.0,))])
    text = page.replace_block(_PAGE, "two", table)
    self.assertTrue(text.startswith(_PAGE.rsplit("<!--", 1)[0]))
    self.assertIn("Here:\n\n| what |", page.read_block(text, "two"))
    self.assertIn("\n| a | 1 | 2 | 0.500 |\n", page.read_block(text, "two"))
    self.assertEqual(page.read_block(text, "one"), "old\n")
    # And again, as at the next run.
    self.assertEqual(page.replace_block(text, "two", table), text)

  def test_figures_without_a_bound_are_a_list_below_the_table(self):
    bounded = figures.Figure("a", "", (1.0,), (2.0,))
    alone = figures.Figure("b", "s", (3.0,))
    self.assertEndsWith(
      page.table("Here", [alone, bounded]),
      "\n| a | 1 | 2 | 0.500 |\n\n- b: 3 s\n",
    )
    self.assertNotIn("\n- ", page.table("Here", [bounded]))

  def test_a_page_without_the_block_is_an_error(self):
    with self.assertRaisesRegex(ValueError, "has 0 blocks for 'three'"):
      page.replace_block(_PAGE, "three", "")
    with self.assertRaisesRegex(ValueError, "has 2 blocks for 'one'"):
      page.read_block(_PAGE * 2, "one")


if __name__ == "__main__":
  absltest.main()
