"""What a command prints is what a page shows."""

from tools import shown_output

from absl.testing import absltest, parameterized

_PRINTED = """\
2026-11-26 21:04:23.000001: I core/cpu.cc:1] This binary is optimized
WARNING: All log messages before absl::InitializeLog() is called are written
I0000 00:00:1795727267.082006    8694 port.cc:153] oneDNN is on.
on stage:2
stage  parameters      MB
0       1,067,008  12.804
INFO:tensorflow:Building the graph took 31 s
verified: 99 ops, to 3.1e-07 (tolerance 1e-05)
"""
_SHOWN = """\
on stage:2
stage  parameters      MB
0       1,067,008  12.804
verified: 99 ops, to 0.0e+00 (tolerance 1e-05)
"""


class ShownOutputTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("all", _SHOWN, None),
    ("lines_before", "...\nverified: 99 ops, to 0.0e+00 (tolerance ...", None),
    ("lines_after", "on stage:2\n...\n", None),
    ("lines_between", "on ...\n...\n0       1,067,008  ...\n...\n", None),
    ("no_lines_there", _SHOWN.replace("stage  ", "...\nstage  "), None),
    ("last_digits", _SHOWN.replace("12.804", "12.805"), None),
    ("a_number", _SHOWN.replace("12.804", "12.9"), "0       1,067,008  12.9"),
    (
      "a_number_without_a_point",
      _SHOWN.replace("99", "98"),
      "verified: 98 ops, to 0.0e+00 (tolerance 1e-05)",
    ),
    ("spaces", _SHOWN.replace("on ", "on  "), "on  stage:2"),
    ("a_line_too_many", f"first\n{_SHOWN}", "first"),
    ("order", "...\n0...\n...\nstage...\n...\n", "stage..."),
    ("a_line_that_is_not_shown", "on stage:2\n", "the end"),
    ("nothing", "", "the end"),
  )
  def test_first_difference(self, shown, difference):
    found = shown_output.first_difference(shown, _PRINTED)
    self.assertEqual(found, difference)

  def test_nothing_is_printed(self):
    self.assertIsNone(shown_output.first_difference("", ""))
    self.assertIsNone(shown_output.first_difference("...\n", ""))
    self.assertEqual(shown_output.first_difference("a\n", ""), "a")

  def test_what_is_no_pattern(self):
    self.assertTrue(shown_output.is_same_line("a (b)* [c]", "a (b)* [c]"))
    self.assertFalse(shown_output.is_same_line("a.c", "abc"))


if __name__ == "__main__":
  absltest.main()
