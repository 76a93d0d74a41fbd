"""Effects: what a training step leaves behind, and what leads there."""

from estimator_mp.pipeline import effects

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class EffectsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())
    self.seen = v1.get_variable("seen", [], use_resource=True)
    self.x = v1.placeholder(tf.float32, [None], "x")

  def test_which_ops_have_one(self):
    write = self.seen.assign_add(1.0, read_value=False)
    queue = tf.queue.FIFOQueue(2, tf.float32)
    has = {
      op.type: effects.has_effect(op)
      for op in (
        write,
        self.seen.read_value().op.inputs[0].op,
        self.x.op,
        queue.enqueue(1.0),
        tf.print("words"),
      )
    }
    self.assertEqual(
      has,
      {
        "AssignAddVariableOp": True,
        "ReadVariableOp": False,
        "Placeholder": False,
        "QueueEnqueueV2": True,
        "PrintV2": False,
      },
    )

  def test_what_leads_to_a_write_says_to_which_variable(self):
    total = tf.reduce_sum(self.x, name="total")
    update = self.seen.assign_add(total, read_value=False)
    other = tf.reduce_max(self.x)
    found = effects.leading_to_effects(self.graph.get_operations(), [update])
    self.assertEqual(found[total.op], ["seen"])
    self.assertEqual(found[self.x.op], ["seen"])
    self.assertEqual(found[update], ["seen"])
    self.assertNotIn(other.op, found)

  def test_what_a_step_does_not_run_leads_nowhere(self):
    total = tf.reduce_sum(self.x)
    self.seen.assign_add(total)
    step = tf.no_op("step")
    self.assertEmpty(
      effects.leading_to_effects(self.graph.get_operations(), [step])
    )

  def test_control_inputs_run_it(self):
    total = tf.reduce_sum(self.x)
    with tf.control_dependencies([self.seen.assign_add(total).op]):
      step = tf.no_op("step")
    found = effects.leading_to_effects(self.graph.get_operations(), [step])
    self.assertEqual(found[total.op], ["seen"])


if __name__ == "__main__":
  absltest.main()
