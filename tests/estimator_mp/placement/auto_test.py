"""Automatic placement, step by step; no session runs."""

from estimator_mp.graph import colocation, op_types
from estimator_mp.placement import auto, forward_graph, unplaced

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _cut(num_stages, towers, memory_limit=None):
  """Cuts towers of dense layers, one of them to a target; returns stages."""
  groups = colocation.ColocationGroups()
  with tf.Graph().as_default() as graph:
    features = v1.placeholder(tf.float32, [None, 8])
    start = len(graph.get_operations())
    ends = []
    for index, widths in enumerate(towers):
      net = features
      for layer, width in enumerate(widths):
        net = v1.layers.dense(net, width, name=f"t{index}/l{layer}")
      ends.append(net.op)
    ops = graph.get_operations()[start:]
    groups.add(ops)
    request = unplaced.Unplaced(ops, ends[:1], groups, ops)
    found = auto.stages_of(request, num_stages, memory_limit)
  return {
    op.name.removesuffix("/kernel"): stage
    for op, stage in found.items()
    if op_types.is_variable(op) and op.name.endswith("kernel")
  }


def _forward(build):
  """Returns the forward graph of what a function builds on features."""
  groups = colocation.ColocationGroups()
  with tf.Graph().as_default() as graph:
    features = v1.placeholder(tf.float32, [None, 8])
    start = len(graph.get_operations())
    build(features)
    ops = graph.get_operations()[start:]
    groups.add(ops)
    return forward_graph.read_forward(ops, groups)


class AutomaticTest(absltest.TestCase):
  def _stages_of_tables(self, rows, num_stages, memory_limit=None):
    """Cuts a ranker; returns the stages of its tables."""

    def build(x):
      ids = tf.cast(x[:, 0], tf.int32)
      net = tf.concat(
        [
          tf.gather(
            v1.get_variable(f"table{i}", [count, 8]), ids, name=f"rows{i}"
          )
          for i, count in enumerate(rows)
        ],
        axis=1,
      )
      for units in (1024, 1024, 1024):
        net = v1.layers.dense(net, units)

    cut = auto.cut_forward(_forward(build), num_stages, memory_limit)
    stages = {op.name: stage for op, stage in cut.stages.items()}
    self.assertLen({stages[f"dense{x}/kernel"] for x in ("", "_1", "_2")}, 2)
    for index, _ in enumerate(rows):
      # Rows are looked up where the table is.
      self.assertEqual(stages[f"rows{index}"], stages[f"table{index}"])
    return [stages[f"table{index}"] for index, _ in enumerate(rows)]

  def test_tables_fill_stages_evenly(self):
    stages = self._stages_of_tables([10**6] * 4, 2)
    self.assertCountEqual(stages, [0, 0, 1, 1])
    stages = self._stages_of_tables([5 * 10**6, 2 * 10**6, 10**6], 2)
    self.assertNotEqual(stages[0], stages[1])
    self.assertEqual(stages[1], stages[2])

  def test_small_tables_stay_where_they_are_used(self):
    self.assertEqual(self._stages_of_tables([10, 20], 2), [0, 0])

  def test_tables_within_a_memory_limit(self):
    rows = [10**6] * 4
    two_tables = 2 * 3 * 4 * 8 * 10**6
    stages = self._stages_of_tables(rows, 2, two_tables + 20_000_000)
    self.assertCountEqual(stages, [0, 0, 1, 1])
    with self.assertRaisesRegex(
      ValueError,
      "^memory_limit=192000000 bytes is too small: cut into 2 stages the model "
      "needs at least 210 MB on one device, 17.9 MB more; raise the limit or "
      "use more stages$",
    ):
      self._stages_of_tables(rows, 2, two_tables)

  def test_what_does_not_lead_to_the_target_is_cut_too(self):
    self.assertEqual(_cut(2, [(8,), (8,)]), {"t0/l0": 0, "t1/l0": 1})

  def test_fewer_layers_than_stages(self):
    with self.assertRaisesRegex(
      ValueError, r"has 2 layer\(s\) .* 3 stages .* at most 2"
    ):
      _cut(3, [(8,), (8,)])

  def test_memory_alone_decides_if_a_fast_cut_does_not_fit(self):
    def build(x):
      ids = tf.cast(x[:, 0], tf.int32)
      tables = [v1.get_variable(f"table{i}", [10**6, 8]) for i in range(3)]
      net = tf.concat([tf.gather(table, ids) for table in tables], axis=1)
      for units in (1024, 1024, 1024, *[8] * 12):
        net = v1.layers.dense(net, units)

    forward = _forward(build)
    fast = auto.cut_forward(forward, 2)
    fullest = int(max(fast.memory_bytes))
    even = auto.cut_forward(forward, 2, memory_limit=fullest - 1)
    self.assertLess(max(even.memory_bytes), fullest)
    # A slower cut, whose time is still that of a step in seconds.
    self.assertGreater(max(even.seconds), max(fast.seconds))
    self.assertLess(max(even.seconds), 1e-2)

  def test_warns_of_a_stage_with_nearly_all_the_memory(self):
    with self.assertLogs("tensorflow", "WARNING") as logs:
      _cut(2, [(1000,), (8,)])
    (line,) = logs.output
    self.assertIn("stage 0 has 99% of the planned memory, 400 kB: ", line)
    with self.assertNoLogs("tensorflow", "WARNING"):
      _cut(2, [(1000,), (1000,)])

  def test_parts_that_fit_one_by_one_but_not_together(self):
    with self.assertRaisesRegex(
      ValueError, "memory_limit=900000 .* needs at least 1.55 MB on one device"
    ):
      _cut(1, [(200, 200), (200, 200)], memory_limit=900_000)


if __name__ == "__main__":
  absltest.main()
