"""What follows from a choice is the same, whatever choice was there before."""

import random

from estimator_mp.planning.model_traffic import Traffic
from estimator_mp.planning.split_candidates import Candidates
from estimator_mp.propagate.layouts import Partition, Shard
from estimator_mp.propagate.propagation import Propagation
from tests.estimator_mp import parts
from tests.estimator_mp.planning import split_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _loss(ids, labels):
  """Returns a loss that shares a table, and has a loop between its layers."""
  table = parts.weight("table", [8, 4])
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)
  net = parts.layer(parts.layer(net, "up", 8), "down", 4)
  net = v1.while_loop(lambda x: tf.norm(x) < 1.0, tf.exp, [net])
  logits = tf.matmul(net, table, transpose_b=True)
  return tf.reduce_mean(parts.class_losses(labels, logits))


class CandidatesTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self.use_v1_control_flow()
    ids = v1.placeholder(tf.int32, [None, 3])
    labels = v1.placeholder(tf.int32, [None])
    self.given = self.problem(_loss(ids, labels))
    self.candidates = Candidates(self.given)

  def _walk(self):
    """Yields choices, each of which differs by one variable."""
    chance = random.Random(1)
    candidate = self.candidates.whole
    for _ in range(40):
      variable = chance.choice([*self.given.variables])
      axis = chance.choice([None, 0, 1])
      split = None
      if axis is not None:
        size = variable.get_attr("shape").dim[axis].size
        split = Shard(axis, Partition(size, (size // 2, size // 2)))
      candidate = self.candidates.changed(candidate, {variable: split})
      yield candidate

  def test_steps_lead_where_a_leap_does(self):
    for found in self._walk():
      leap = self.candidates.changed(self.candidates.whole, found.splits)
      self.assertEqual(found, leap)

  def test_layouts_and_bytes_are_those_of_a_propagation(self):
    """But for what is made in parts because it is read so, and for loops."""
    given = self.given
    for found in self._walk():
      handles = {x.outputs[0].name: how for x, how in found.splits.items()}
      roots = {name: how for name, how in handles.items() if how}
      able = {
        op
        for op in given.ops
        if not given.layouts.is_in_region(op)
        and all(x.name in roots for x in op.inputs if x.dtype == tf.resource)
      }
      layouts = Propagation(given.shapes, roots, able, exchanged=("classes",))
      layouts.run(given.ops)
      for tensor in (x for op in given.ops for x in op.outputs):
        expected = layouts.layout(tensor)
        self.assertEqual(self.candidates.layout(found, tensor), expected)
      traffic = Traffic(layouts, given.shapes, 2, given.sizes, ())
      traffic.add(given.ops)
      sent = sum(x.num_bytes for x in traffic.sent)
      self.assertLessEqual(found.num_bytes, sent)


if __name__ == "__main__":
  absltest.main()
