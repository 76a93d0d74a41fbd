"""The table of all-reduce algorithms: what follows from a row."""

import dataclasses
import inspect

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.
from estimator_mp.config import algorithms, sharding_options

from absl.testing import absltest, parameterized

ROWS = algorithms.ALGORITHMS


class RowsTest(parameterized.TestCase):
  @parameterized.named_parameters((name, row) for name, row in ROWS.items())
  def test_a_module_has_what_its_row_says(self, row):
    module = row.load()
    self.assertEqual(
      [*inspect.signature(module.all_reduce).parameters], ["tensors", "devices"]
    )
    # There is a formula unless TensorFlow's own op sends.
    self.assertEqual(hasattr(module, "traffic"), not row.is_sent_by_op)

  def test_the_option_takes_all_of_them(self):
    (field,) = [
      field
      for field in dataclasses.fields(sharding_options.ShardingOptions)
      if field.name == "aggregation"
    ]
    self.assertEqual(
      field.metadata["option"].choices, ("auto", *ROWS, "horovod")
    )

  def test_every_check_is_made_of_the_row(self):
    """Here of a row that no algorithm has."""
    row = dataclasses.replace(
      ROWS["copy"], device_type="TPU", dtypes=("float64",)
    )
    with absltest.mock.patch.object(algorithms, "ALGORITHMS", {"star": row}):
      algorithms.check_algorithm("star", ["/device:TPU:0"], "float64")
      for devices, dtype, message in (
        (
          ["/device:CPU:0"],
          "float64",
          "algorithm 'star' cannot run on /device:CPU:0, which is not a TPU; "
          "use algorithm='copy', or 'auto', which chooses by the devices",
        ),
        (
          ["/device:TPU:0"],
          "float32",
          "algorithm 'star' has no float32, only float64; use algorithm='ring'",
        ),
      ):
        with self.assertRaisesWithLiteralMatch(ValueError, message):
          algorithms.check_algorithm("star", devices, dtype)

  def test_auto_takes_the_last_row_that_suits(self):
    rows = {**ROWS, "star": dataclasses.replace(ROWS["copy"], module="star")}
    with absltest.mock.patch.object(algorithms, "ALGORITHMS", rows):
      for devices in (["/cpu:0", "/cpu:1"], ["/gpu:0", "/gpu:1"]):
        found = algorithms.choose_algorithm(10**9, devices)
        self.assertEqual(found, "star")


if __name__ == "__main__":
  absltest.main()
