"""Amounts for people: three digits, the right unit, columns that line up."""

from estimator_mp import amounts

from absl.testing import absltest, parameterized


class AmountTest(parameterized.TestCase):
  @parameterized.parameters(
    (0, "0 B"),
    (999, "999 B"),
    (999.4, "999 B"),
    (999.5, "1.00 kB"),
    (1000, "1.00 kB"),
    (12_340, "12.3 kB"),
    (999_499, "999 kB"),
    (999_500, "1.00 MB"),
    (5e9, "5.00 GB"),
    (2e18, "2000 PB"),
    (0.25, "0.25 B"),
  )
  def test_amount(self, value, expected):
    self.assertEqual(amounts.amount(value, "B"), expected)

  @parameterized.parameters(
    (0, "tensor", "s", "0 tensors"),
    (1, "tensor", "s", "1 tensor"),
    (1200, "tensor", "s", "1,200 tensors"),
    (2, "mesh", "es", "2 meshes"),
  )
  def test_counted(self, count, thing, ending, expected):
    self.assertEqual(amounts.counted(count, thing, ending), expected)

  @parameterized.parameters(
    ("1000000", 1_000_000),
    ("16GB", 16_000_000_000),
    ("256MiB", 268_435_456),
    ("1.5 KiB", 1536),
    (" 7B ", 7),
    ("0", 0),
    ("9007199254740993", 9_007_199_254_740_993),
  )
  def test_parse_bytes(self, text, expected):
    self.assertEqual(amounts.parse_bytes(text), expected)

  @parameterized.parameters("", "MiB", "-3MB", "12XB", "1kiB")
  def test_no_bytes(self, text):
    with self.assertRaisesRegex(
      ValueError,
      "^is not an amount of bytes; write it like 256MiB, 16GB or 1000000$",
    ):
      amounts.parse_bytes(text)

  @parameterized.parameters(
    (0, "0"),
    (1000, "1kB"),
    (1001, "1001"),
    (65536, "64KiB"),
    (1_500_000_000, "1500MB"),
    (2**31, "2GiB"),
  )
  def test_format_bytes_keeps_every_digit(self, num_bytes, text):
    self.assertEqual(amounts.format_bytes(num_bytes), text)
    self.assertEqual(amounts.parse_bytes(text), num_bytes)

  def test_together_has_one_unit(self):
    self.assertEqual(
      amounts.in_one_unit([4_500_000, 3_400_000, 200_000], "B"),
      "4.50/3.40/0.20 MB",
    )
    self.assertEqual(amounts.in_one_unit([0, 7], "FLOP"), "0/7 FLOP")


class ColumnsTest(absltest.TestCase):
  def test_words_are_on_the_left_and_numbers_on_the_right(self):
    rows = [
      ("stage", "layers", "bytes"),
      ("0", "dense", "12,000"),
      ("1", "", "7"),
    ]
    self.assertEqual(
      amounts.columns(rows, 2),
      [
        "stage  layers   bytes",
        "0      dense   12,000",
        "1                   7",
      ],
    )

  def test_nothing_hangs_over_on_the_right(self):
    self.assertEqual(amounts.columns([("a", "long"), ("b", "")], 2)[1], "b")

  def test_rows_of_different_length_are_an_error(self):
    with self.assertRaises(ValueError):
      amounts.columns([("a", "b"), ("c",)], 1)


if __name__ == "__main__":
  absltest.main()
