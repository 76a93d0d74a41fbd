"""Which updates each replica can repeat: as data, on small graphs."""

from estimator_mp.replicas import replica_updates
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class FindUpdatesTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self.use_v1_control_flow()
    self._weights = self.variable("weights")
    self._gradient = v1.placeholder(tf.float32, [4, 2], name="gradient")
    self._num_before = len(self.ops())

  def _find(self, *variables):
    starts = {v.initializer for v in v1.global_variables()}
    rest = [op for op in self.ops()[self._num_before :] if op not in starts]
    return replica_updates.find_updates(
      rest,
      [v.op for v in (self._weights, *variables)],
      {self._gradient.name},
    )

  def _apply(self, optimizer, gradient=None):
    gradient = self._gradient if gradient is None else gradient
    return optimizer.apply_gradients([(gradient, self._weights)])

  @parameterized.named_parameters(
    ("sgd", v1.train.GradientDescentOptimizer, 0),
    ("adagrad", v1.train.AdagradOptimizer, 1),
    ("adam", v1.train.AdamOptimizer, 2),
  )
  def test_an_update_with_its_slots(self, optimizer, num_slots):
    self._apply(optimizer(0.1))
    found = self._find()
    self.assertLen(found.slots, num_slots)
    self.assertLen(found.writes, 1)
    self.assertContainsSubset([*found.slots, *found.writes], found.ops)
    # Powers of beta are scalars, which replica 0 has for all.
    self.assertNotIn("beta1_power", {slot.name for slot in found.slots})

  def test_what_lies_between_is_cloned_but_no_scalar(self):
    norm = tf.norm(self._gradient, name="norm")
    clipped = tf.divide(self._gradient, norm, name="clipped")
    self._apply(v1.train.GradientDescentOptimizer(0.1), clipped)
    found = self._find()
    self.assertIn(clipped.op, found.ops)
    self.assertNotIn(norm.op, found.ops)

  def test_random_numbers_are_drawn_once(self):
    noise = tf.random.normal([4, 2], name="noise")
    noisy = tf.add(self._gradient, noise, name="noisy")
    self._apply(v1.train.GradientDescentOptimizer(0.1), noisy)
    found = self._find()
    self.assertIn(noisy.op, found.ops)
    self.assertNotIn(noise.op, found.ops)

  def test_a_branch_is_not_repeated(self):
    """Nothing outside can wait for what is in a branch of a v1 cond."""

    def update():
      return tf.group(self._apply(v1.train.GradientDescentOptimizer(0.1)))

    v1.cond(v1.placeholder(tf.bool, []), update, tf.no_op)
    self.assertEqual(self._find(), replica_updates.Updates([], [], []))

  def test_all_variables_of_a_write_or_none(self):
    """A slot that a function writes, too, keeps its variable from it."""
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    self._apply(optimizer)
    slot = optimizer.get_slot(self._weights, "momentum")

    @tf.function
    def reset():
      slot.assign(tf.zeros([4, 2]))

    reset()
    self.assertEmpty(self._find().writes)


if __name__ == "__main__":
  absltest.main()
