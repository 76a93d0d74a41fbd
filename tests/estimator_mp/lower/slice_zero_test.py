"""Slice 0 of small graphs: one request for gradients is that of the batch.

Batch plans are written down, and `each_slice` runs what comes out once for each
slice. The gradients are those of the plain graph.
"""

from estimator_mp.capture import micro_batches
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.graph import traversal
from estimator_mp.lower.slicing import slice_zero, slices
from estimator_mp.plan.batch_plan import BatchPlan, Cut, PartedOp, Rows
from estimator_mp.plan.bridge import Kind
from tests.estimator_mp.lower import each_slice

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EACH = Rows(0, 1)
_OWN = Cut(_EACH)
_BATCHES = (
  ("static", 4, (2, 2)),
  ("open", None, (3, 2)),
  ("more_slices_than_examples", None, (1, 0)),
)
_NOTHING = BatchPlan((), {}, frozenset())


class _SliceZeroCase(parameterized.TestCase):
  """A batch x [B, 3] in two slices."""

  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.device("/device:CPU:0"))
    self._parted: list[PartedOp] = []
    self._rows: dict[str, Rows] = {}
    self._of_gradients = lambda made, joined: _NOTHING

  def _start(self, size=4):
    """Makes the input and its slices, and weights that a session knows."""
    self._x = v1.placeholder(tf.float32, [size, 3], "x")
    inputs = micro_batches.inputs_with_examples({"features": self._x})
    self._slices = slices.Slices(inputs, 2, 1, "/device:CPU:0")
    self._ledger = ledger_lib.Ledger(self._graph)
    self._zero = slice_zero.SliceZero(
      self._slices, self._ledger, lambda *x: self._of_gradients(*x)
    )
    weights = np.random.RandomState(7).randn(3, 2).astype(np.float32)
    self._w = v1.placeholder_with_default(weights, [3, 2], "w")

  def _put(self, tensor, *reads, **more):
    """Plans the op that makes a tensor, and returns the tensor."""
    more.setdefault("shares", (False,) * len(tensor.op.outputs))
    self._parted.append(PartedOp(tensor.op, reads, **more))
    if not any(more["shares"]):
      self._rows |= {x.name: _EACH for x in tensor.op.outputs}
    return tensor

  def _plan(self):
    """Returns the plan of what was put, and forgets it."""
    plan = BatchPlan(tuple(self._parted), dict(self._rows), frozenset())
    self._parted, self._rows = [], {}
    return plan

  def _split(self, *once):
    """Makes slice 0's ops; what is executed once reads what slices make."""
    self._zero.split([x.op for x in once], self._plan())

  def _ask(self, targets, sources, grad_ys=None):
    """Returns slice 0's answer to a request for gradients."""
    return self._zero.gradients(targets, sources, grad_ys, tf.gradients)

  def _compare(self, plain, found, sizes=(2, 2)):
    """Compares the whole of what slices make with what the plain graph does.

    What is whole is so in each slice.
    """
    x = np.random.RandomState(3).randn(sum(sizes), 3).astype(np.float32)
    with v1.Session() as session:
      expected = session.run(plain, {self._x: x})
    made = each_slice.run(
      found, self._zero.bridges, self._slices.first, sizes, {self._x: x}
    )
    for of_slice in made:
      for ours, theirs in zip(of_slice, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)

  def _loss(self):
    """Returns the loss of a layer: a sum of shares."""
    y = self._put(tf.matmul(self._x, self._w, name="y"), _OWN, None)
    squares = self._put(tf.square(y, "squares"), _OWN)
    return y, self._put(
      tf.reduce_sum(squares, name="loss"), _OWN, None, shares=(True,)
    )


class SliceZeroTest(_SliceZeroCase):
  @parameterized.named_parameters(*_BATCHES)
  def test_gradients_of_weights_and_inputs(self, size, sizes):
    self._start(size)
    y, loss = self._loss()
    plain = tf.gradients(loss, [self._w, y, self._x])
    self._split()
    found = self._ask([loss], [self._w, y, self._x])
    kinds = [self._zero.bridges.all[x.op.name].kind for x in found]
    self.assertEqual(kinds, [Kind.SUM, Kind.JOIN, Kind.JOIN])
    self._compare(plain, found, sizes)

  def test_what_a_request_makes_is_in_the_ledger(self):
    self._start()
    _, loss = self._loss()
    self._split()
    self.assertEmpty(self._ledger.request_of)
    (found,) = self._ask([loss], [self._w])
    self.assertEqual(self._ledger.request_of[found.op], 0)
    self.assertEqual(self._zero.bridges.all[found.op.name].request, 0)
    self.assertIsNone(self._zero.bridges.request)
    (again,) = self._ask([loss], [self._w])
    self.assertEqual(self._zero.bridges.all[again.op.name].request, 1)

  def test_what_is_executed_once_adds_its_term_once(self):
    """A penalty on a weight beside the loss of slices."""
    self._start()
    _, loss = self._loss()
    total = tf.add(loss, tf.nn.l2_loss(self._w, "penalty"), name="total")
    plain = tf.gradients(total, [self._w])
    self._split(total)
    self._compare(plain, self._ask([total], [self._w]))

  def test_what_is_executed_once_is_between_slices(self):
    """A softmax over the examples of the batch."""
    self._start()
    y = self._put(tf.matmul(self._x, self._w, name="y"), _OWN, None)
    every = tf.nn.softmax(y, 0, "every")
    z = self._put(tf.multiply(y, every, name="z"), _OWN, _OWN)
    loss = self._put(tf.reduce_sum(z), _OWN, None, shares=(True,))
    plain = tf.gradients(loss, [self._w])
    self._zero.split(self._graph.get_operations(), self._plan())
    self._compare(plain, self._ask([loss], [self._w]))

  def test_what_the_chain_rule_starts_with(self):
    self._start()
    y, _ = self._loss()
    start = tf.cos(y, "start")
    plain = tf.gradients(y, [self._w], [start])
    self._split(start)
    self._compare(plain, self._ask([y], [self._w], [start]))

  def test_layers_that_share_a_weight_are_summed_once(self):
    """Each layer reads the weight itself, as it does a variable."""
    self._start()
    w = v1.placeholder_with_default(np.eye(3, dtype=np.float32) / 2, [3, 3])
    reads = [tf.identity(w), tf.identity(w)]
    y = self._put(tf.matmul(self._x, reads[0], name="y"), _OWN, None)
    z = self._put(tf.matmul(y, reads[1], name="z"), _OWN, None)
    loss = self._put(tf.reduce_sum(z), _OWN, None, shares=(True,))
    plain = tf.gradients(loss, [w])
    self._split()
    found = self._ask([loss], [w])
    bridges = self._zero.bridges.all.values()
    of_weight = [x for x in bridges if any(x.of is y for y in reads)]
    self.assertLen(of_weight, 1)
    self.assertIs(of_weight[0].output, found[0])
    self.assertEqual(of_weight[0].source.op.type, "AddN")
    self._compare(plain, found)

  def test_gradients_of_gradients(self):
    self._start()
    y = self._put(tf.matmul(self._x, self._w, name="y"), _OWN, None)
    cubes = self._put(tf.pow(y, 3.0, name="cubes"), _OWN, None)
    loss = self._put(tf.reduce_sum(cubes), _OWN, None, shares=(True,))
    plain = tf.gradients(
      tf.reduce_sum(tf.gradients(loss, self._w)[0]), [self._w]
    )
    self._split()
    (first,) = self._ask([loss], [self._w])
    penalty = tf.reduce_sum(first)
    self._split(penalty)
    self._compare(plain, self._ask([penalty], [self._w]))

  def test_sources_that_nothing_depends_on(self):
    self._start()
    _, loss = self._loss()
    self._split()
    other = tf.constant(1.0)
    found = self._ask([loss], [other])
    self.assertEqual(found, [None])

  def test_what_is_taken_for_constant(self):
    self._start()
    y, _ = self._loss()
    self._split()
    self.assertEqual(
      self._zero.constants([y, self._w, None]), [self._zero.template.part(y)]
    )


class OwnGradientsTest(_SliceZeroCase):
  """A function -y of y = x w and of a scale, with a gradient of its own."""

  def _loss_of_own(self):
    """Returns the scale, and the loss of the function."""

    @tf.custom_gradient
    def function(y, scale):
      def gradient(dy):
        of_scale = tf.multiply(y, dy, name="of_scale")
        return tf.multiply(dy, scale, name="of_y"), tf.reduce_sum(of_scale)

      return tf.negative(y, "minus_y"), gradient

    scale = v1.placeholder_with_default(5.0, [], "scale")
    y = self._put(tf.matmul(self._x, self._w, name="y"), _OWN, None)
    own = function(y, scale)
    self._put(own.op.inputs[0], _OWN)
    self._parted.append(
      PartedOp(own.op, (_OWN, _OWN, None), (False,) * len(own.op.outputs))
    )
    self._rows |= {x.name: _EACH for x in own.op.outputs[:2]}
    squares = self._put(tf.square(own), _OWN)
    loss = tf.reduce_sum(squares, name="loss")
    return scale, self._put(loss, _OWN, None, shares=(True,))

  def _needed(self, found):
    """Returns the kinds of bridges that lead to gradients."""
    needed = traversal.ops_run_with(*(x.op for x in found))
    bridges = self._zero.bridges.all
    return {bridges[x.name].kind for x in needed if x.name in bridges}

  @parameterized.named_parameters(*_BATCHES)
  def test_it_is_asked_for_the_whole_batch(self, size, sizes):
    self._start(size)
    scale, loss = self._loss_of_own()
    plain = tf.gradients(loss, [self._w, scale])
    self._split()
    found = self._ask([loss], [self._w, scale])
    self.assertIn(Kind.JOIN, self._needed(found))
    self._compare(plain, found, sizes)

  @parameterized.named_parameters(*_BATCHES)
  def test_what_rules_allow_is_executed_in_parts(self, size, sizes):
    self._start(size)
    scale, loss = self._loss_of_own()
    plain = tf.gradients(loss, [self._w, scale])
    self._split()
    self._of_gradients = self._plan_of_gradients
    found = self._ask([loss], [self._w, scale])
    self.assertNotIn(Kind.JOIN, self._needed(found))
    self._compare(plain, found, sizes)

  def _plan_of_gradients(self, made, joined):
    self.assertEqual({*joined.values()}, {_EACH})
    for op in made:
      if op.type == "Mul":
        reads = [_OWN if x.shape.rank else None for x in op.inputs]
        self._put(op.outputs[0], *reads)
      if op.type == "Sum":
        self._put(op.outputs[0], _OWN, None, shares=(True,))
    return self._plan()


if __name__ == "__main__":
  absltest.main()
