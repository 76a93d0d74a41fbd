"""Automatic placement of models whose gradients are wanted part by part."""

from estimator_mp.graph import colocation, op_types
from estimator_mp.placement import parts as parts_lib

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _cut(num_stages, towers, memory_limit=None):
  """Cuts towers of dense layers one by one; returns stages of kernels."""
  parts = parts_lib.Parts(num_stages, memory_limit)
  groups = colocation.ColocationGroups()
  found = {}
  with tf.Graph().as_default() as graph:
    features = v1.placeholder(tf.float32, [None, 8])
    for index, widths in enumerate(towers):
      start = len(graph.get_operations())
      net = features
      for layer, width in enumerate(widths):
        net = v1.layers.dense(net, width, name=f"t{index}/l{layer}")
      ops = graph.get_operations()[start:]
      groups.add(ops)
      found |= parts.stages_of(ops, [net.op], groups)
    parts.check([])
  return {
    op.name.removesuffix("/kernel"): stage
    for op, stage in found.items()
    if op_types.is_variable(op) and op.name.endswith("kernel")
  }


class PartsTest(absltest.TestCase):
  def test_a_part_with_a_layer_for_each_stage_is_cut_over_all(self):
    found = _cut(2, [(8, 8), (8, 8)])
    self.assertEqual(found, {"t0/l0": 0, "t0/l1": 1, "t1/l0": 0, "t1/l1": 1})

  def test_smaller_parts_go_to_the_emptiest_stages(self):
    found = _cut(3, [(8, 80), (8,), (8, 4)])
    self.assertEqual(
      found, {"t0/l0": 0, "t0/l1": 1, "t1/l0": 2, "t2/l0": 0, "t2/l1": 2}
    )

  def test_what_does_not_lead_to_the_target_is_cut_too(self):
    groups = colocation.ColocationGroups()
    with tf.Graph().as_default() as graph:
      features = v1.placeholder(tf.float32, [None, 8])
      start = len(graph.get_operations())
      asked = v1.layers.dense(features, 8, name="asked")
      v1.layers.dense(features, 8, name="later")
      ops = graph.get_operations()[start:]
      groups.add(ops)
      found = parts_lib.Parts(2).stages_of(ops, [asked.op], groups)
    stages = {op.name: stage for op, stage in found.items()}
    self.assertEqual((stages["asked/kernel"], stages["later/kernel"]), (0, 1))

  def test_fewer_layers_than_stages_in_all_parts_together(self):
    with self.assertRaises(ValueError) as caught:
      _cut(3, [(8,), (8,)])
    self.assertEqual(
      str(caught.exception),
      "the model has 2 layer(s) with weights, fewer than the 3 stages of the "
      "mesh; use at most stage:2",
    )

  def test_parts_that_fit_one_by_one_but_not_together(self):
    with self.assertRaises(ValueError) as caught:
      _cut(1, [(200, 200), (200, 200)], memory_limit=900_000)
    self.assertEqual(
      str(caught.exception),
      "memory_limit=900000 bytes is too small: the model asks for gradients "
      "part by part, and its parts need 1.34 MB on one device; raise the "
      "limit, or place the model by rules",
    )


if __name__ == "__main__":
  absltest.main()
