"""Tests of the picture of what is split."""

import dataclasses
import pathlib

from estimator_mp.observe import split_picture
from estimator_mp.planning.split_plan import Sent, SplitPlan, SplitVariable

from absl.testing import absltest

_PLAN = SplitPlan(
  (
    SplitVariable("hidden/kernel", (20, 64), 1, (32, 32), 5120),
    SplitVariable("logits/kernel", (64, 10), 0, (32, 32), 2560),
    SplitVariable("hidden/bias", (64,), 0, (32, 32), 256),
    SplitVariable("hidden/kernel/Adam", (20, 64), 1, (32, 32), 5120),
  ),
  (
    Sent("broadcast", "x:0", "hidden/MatMul", "MatMul", 2560, 0),
    Sent("broadcast", "rate:0", "logits/MatMul", "MatMul", 4, 0),
    Sent("sum", "logits/MatMul:0", "logits/MatMul", "MatMul", 1280, 1280),
  ),
)
_LAYERS = SplitPlan(
  tuple(
    SplitVariable(f"layer_{i}/{name}/kernel_1", shape, axis, (8, 8), 1024)
    for i in range(3)
    for name, shape, axis in (("up", (16, 16), 1), ("down", (16, 16), 0))
  ),
  tuple(
    Sent("sum", f"layer_{i}/MatMul:1", f"layer_{i}/MatMul", "MatMul", 512, size)
    for i, size in enumerate((0, 512, 512))
  ),
)


class RowsTest(absltest.TestCase):
  def test_the_most_bytes_are_first_without_slots_and_scalars(self):
    small = SplitVariable("first", (4,), 0, (2, 2), 16)
    plan = dataclasses.replace(_PLAN, variables=(small, *_PLAN.variables))
    self.assertEqual(
      [
        (row.name, row.count, row.description)
        for row in split_picture.rows(plan)
      ],
      [
        ("hidden/kernel", 1, "20 x 64, split by axis 1; 5.12 kB"),
        ("logits/kernel", 1, "64 x 10, split by axis 0; 2.56 kB"),
        ("hidden/bias", 1, "64, split by axis 0; 256 B"),
        ("first", 1, "4, split by axis 0; 16 B"),
        ("x", 1, "broadcast; 2.56 kB"),
        ("logits/MatMul", 1, "sum; 1.28 kB, 1.28 kB back"),
      ],
    )

  def test_those_of_the_same_bytes_are_in_the_order_of_the_plan(self):
    plan = SplitPlan(
      tuple(SplitVariable(name, (4,), 0, (2, 2), 16) for name in "cab")
    )
    rows = split_picture.rows(plan)
    self.assertEqual([row.name for row in rows], ["c", "a", "b"])

  def test_what_only_numbers_tell_apart_is_one_row(self):
    self.assertEqual(
      [(row.name, row.description) for row in split_picture.rows(_LAYERS)],
      [
        ("layer_*/up/kernel_1", "each of 3: 16 x 16, split by axis 1; 1.02 kB"),
        (
          "layer_*/down/kernel_1",
          "each of 3: 16 x 16, split by axis 0; 1.02 kB",
        ),
        ("layer_*/MatMul:1", "each of 2: sum; 512 B, 512 B back"),
        ("layer_0/MatMul:1", "sum; 512 B"),
      ],
    )


class PictureTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)

  def _draw(self, plan, devices=("part 0", "part 1")):
    paths = split_picture.write_pictures(
      "net on model:2", plan, devices, str(self.folder)
    )
    self.assertEqual(
      [pathlib.Path(path).name for path in paths], ["split.png", "split.svg"]
    )
    return [pathlib.Path(path).read_bytes() for path in paths]

  def test_two_runs_write_the_same(self):
    first = self._draw(_PLAN)
    self.assertEqual(first[0][1:4], b"PNG")
    self.assertEqual(self._draw(_PLAN), first)

  def test_shows_each_shard(self):
    """A shard is a filled box; two more shards are two more boxes."""
    _, two = self._draw(_PLAN)
    variable = SplitVariable("hidden/kernel", (20, 64), 1, (20, 44), 5120)
    _, uneven = self._draw(SplitPlan((variable, *_PLAN.variables[1:])))
    self.assertNotEqual(two, uneven)
    self.assertEqual(two.count(b"#4e79a7"), 3)
    self.assertEqual(two.count(b"#f28e2b"), 3)

  def test_shows_what_each_replica_has_besides(self):
    table = SplitVariable("table", (20, 4), 0, (10, 10), 320)
    slot = SplitVariable("table/Adagrad", (20, 4), 0, (10, 10), 320)
    plan = SplitPlan((table, slot))
    self.assertEqual(split_picture.num_parameters(plan), 80)
    _, alone = self._draw(plan)
    split_picture.write_pictures(
      "", plan, ("part 0", "part 1"), str(self.folder), replicated=1234
    )
    drawn = (self.folder / "split.svg").read_bytes()
    self.assertEqual(drawn.count(b"#4e79a7"), alone.count(b"#4e79a7") + 1)
    self.assertEqual(drawn.count(b"#f28e2b"), alone.count(b"#f28e2b") + 1)

  def test_a_long_plan_loses_the_smallest(self):
    """The largest of 40 shapes, and all that is sent, are drawn in full."""
    variables = tuple(
      SplitVariable(f"{'x' * 90}_{i}", (8, 8, i), i % 2, (3, 3, 2), 256 * i)
      for i in range(1, 41)
    )
    devices = ("part 0", "part 1", "part 2")
    plan = dataclasses.replace(_PLAN, variables=variables)
    _, drawn = self._draw(plan, devices)
    self.assertEqual(drawn.count(b"#59a14f"), 24)
    for name in (*(x.name for x in variables[16:]), "x", "logits/MatMul"):
      self.assertIn(f"<!-- {name} -->".encode(), drawn)
    self.assertIn(b"<!-- Not drawn: 16 smaller variables. -->", drawn)

  def test_names_are_no_mathematics(self):
    odd = SplitVariable("a$b_c$/$x^{", (8, 4), 0, (4, 4), 128)
    _, drawn = self._draw(SplitPlan((odd,)))
    self.assertIn(b"<!-- a$b_c$/$x^{ -->", drawn)

  def test_a_scalar_dimension_and_no_variable_are_drawn(self):
    one = SplitVariable("b", (2,), 0, (1, 1), 8)
    self._draw(SplitPlan((one,)))
    self._draw(SplitPlan())


if __name__ == "__main__":
  absltest.main()
