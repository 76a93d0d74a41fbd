"""Requests: those for gradients of earlier gradients are answered in two."""

from estimator_mp.capture import requests

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class _Slices:
  """Answers requests as if the whole batch was two slices like the first."""

  def __init__(self):
    self.seen = []

  def answer(self, request):
    self.seen.append(request)
    parts = request.gradients(request.grad_ys)
    totals = [None if part is None else 2.0 * part for part in parts]
    return requests.Answer(totals, request.sources, parts, totals)


def _compute(targets, sources, grad_ys, constants):
  return tf.gradients(
    targets,
    sources,
    grad_ys=None if grad_ys is None else list(grad_ys),
    stop_gradients=list(constants),
  )


class RequestsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.slices = _Slices()
    self.requests = requests.Requests(self.slices.answer, tf.add_n)
    self.w = v1.placeholder(tf.float32, [], "w")
    self.loss = self.w * self.w * self.w

  def _gradients(self, targets, sources, grad_ys=None):
    return self.requests.gradients(targets, sources, grad_ys, _compute)

  def test_a_first_request_is_passed_on(self):
    unread = v1.placeholder(tf.float32, [])
    grad_y = tf.constant(3.0)
    total, none = self._gradients([self.loss], [self.w, unread], [grad_y])
    (request,) = self.slices.seen
    self.assertIs(request.targets[0], self.loss)
    self.assertIs(request.grad_ys[0], grad_y)
    self.assertEmpty(request.constants)
    self.assertFalse(request.are_sums)
    self.assertEqual(total.op.type, "Mul")
    self.assertIsNone(none)
    self.assertEqual(self.requests.count, 1)

  def test_a_loss_made_anew_is_no_gradient_of_an_earlier_one(self):
    self._gradients([self.loss], [self.w])
    self._gradients([self.loss + self.w], [self.w])
    self.assertEqual(self.requests.count, 2)
    self.assertEmpty(self.slices.seen[1].constants)

  def test_a_gradient_of_a_gradient_is_two_requests(self):
    (slope,) = self._gradients([self.loss], [self.w])
    (part,) = slope.op.inputs[1:]
    penalty = slope * slope
    (found,) = self._gradients([penalty + self.loss], [self.w])
    _, outer, inner = self.slices.seen
    # By the loss and by the sum, at which the chain rule stops; then from the
    # first slice's part of the sum on.
    self.assertEqual([x.name for x in outer.sources], ["w:0", slope.name])
    self.assertEqual([x.name for x in outer.constants], [slope.name])
    self.assertFalse(outer.are_sums)
    self.assertEqual([x.name for x in inner.targets], [part.name])
    self.assertEqual([x.name for x in inner.sources], ["w:0"])
    self.assertLen(inner.grad_ys, 1)
    self.assertTrue(inner.are_sums)
    self.assertEqual(found.op.type, "AddV2")
    self.assertEqual(self.requests.count, 3)

  def test_a_gradient_that_does_not_lead_on_is_one_request(self):
    (slope,) = self._gradients([self.loss], [self.w])
    fixed = tf.stop_gradient(slope)
    self._gradients([fixed + self.loss], [self.w])
    self.assertEqual(self.requests.count, 2)

  def test_a_sparse_gradient_has_none(self):
    table = v1.get_variable("table", [5, 2], use_resource=True)
    rows = tf.nn.embedding_lookup(table, [1, 3])

    def answer(request):
      (part,) = request.gradients(request.grad_ys)
      total = tf.IndexedSlices(
        2.0 * part.values, part.indices, part.dense_shape
      )
      return requests.Answer([total], request.sources, [part], [total])

    self.requests = requests.Requests(answer, tf.add_n)
    (slices,) = self._gradients([tf.reduce_sum(rows**2)], [table])
    norm = tf.reduce_sum(slices.values, name="norm")
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "norm:0 depends on the gradient of table, which is sparse, and its "
      "gradient is asked for; micro-batches and replicas cannot differentiate "
      "a sparse gradient: read the variable whole (tf.identity of it), or use "
      "num_micro_batches=1 and no data axis",
    ):
      self._gradients([norm], [table])


if __name__ == "__main__":
  absltest.main()
