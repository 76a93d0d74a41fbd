"""Tests of the picture of what is split."""

import pathlib

from estimator_mp.model_axis.costs import Sent
from estimator_mp.model_axis.split_plan import SplitPlan, SplitVariable
from estimator_mp.observe import split_picture

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
_ORDER = (
  "hidden/kernel",
  "hidden/MatMul",
  "hidden/bias",
  "logits/kernel",
  "logits/MatMul",
)


class RowsTest(absltest.TestCase):
  def test_are_in_the_order_of_the_graph_without_slots_and_scalars(self):
    rows = split_picture.rows(_PLAN, _ORDER)
    self.assertEqual(
      [getattr(row, "op", getattr(row, "name", "")) for row in rows],
      list(_ORDER),
    )

  def test_what_the_graph_does_not_name_comes_last(self):
    rows = split_picture.rows(_PLAN, _ORDER[1:])
    self.assertEqual(rows[-1], _PLAN.variables[0])


class PictureTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)

  def _draw(self, plan, order=_ORDER, devices=("part 0", "part 1")):
    paths = split_picture.write_pictures(
      "net on model:2", plan, order, devices, str(self.folder)
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
    self.assertEqual(two.count(b"#7fa8d1"), 3)
    self.assertEqual(two.count(b"#e3a26f"), 3)

  def test_shows_what_each_replica_has_besides(self):
    table = SplitVariable("table", (20, 4), 0, (10, 10), 320)
    slot = SplitVariable("table/Adagrad", (20, 4), 0, (10, 10), 320)
    plan = SplitPlan((table, slot))
    self.assertEqual(split_picture.num_parameters(plan), 80)
    _, alone = self._draw(plan)
    split_picture.write_pictures(
      "", plan, (), ("part 0", "part 1"), str(self.folder), replicated=1234
    )
    drawn = (self.folder / "split.svg").read_bytes()
    self.assertEqual(drawn.count(b"#7fa8d1"), alone.count(b"#7fa8d1") + 1)
    self.assertEqual(drawn.count(b"#e3a26f"), alone.count(b"#e3a26f") + 1)

  def test_a_long_plan_is_cut(self):
    variables = tuple(
      SplitVariable(f"layer_{i}", (8, 8, 8), i % 3, (3, 3, 2), 2048)
      for i in range(40)
    )
    devices = ("part 0", "part 1", "part 2")
    _, drawn = self._draw(SplitPlan(variables), (), devices)
    self.assertEqual(drawn.count(b"#8cbf88"), 24)

  def test_a_scalar_dimension_and_no_variable_are_drawn(self):
    one = SplitVariable("b", (2,), 0, (1, 1), 8)
    self._draw(SplitPlan((one,)))
    self._draw(SplitPlan())


if __name__ == "__main__":
  absltest.main()
