"""The template: slice 0 of small graphs, by batch plans that are written down.

The graph is that of a batch of examples, of which `each_slice` runs the
template once for each slice.
"""

from estimator_mp.capture import micro_batches
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import own_gradients, slices, template
from estimator_mp.plan.batch_plan import (
  BatchPlan,
  Cut,
  PartedOp,
  Places,
  Rows,
  Size,
)
from estimator_mp.plan.bridge import Kind
from tests.estimator_mp.lower import each_slice

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EACH = Rows(0, 1)
_OWN = Cut(_EACH)


def _parted(tensor, *reads, **more):
  """Returns what slices do of the op that makes a tensor."""
  more.setdefault("shares", (False,) * len(tensor.op.outputs))
  return PartedOp(tensor.op, reads, **more)


class _TemplateCase(parameterized.TestCase):
  """A batch x [4, 3], or of any size, in two slices."""

  size: int | None = 4

  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.device("/device:CPU:0"))
    self._x = v1.placeholder(tf.float32, [self.size, 3], "x")
    inputs = micro_batches.inputs_with_examples({"features": self._x})
    self._slices = slices.Slices(inputs, 2, 1, "/device:CPU:0")
    self._ledger = ledger_lib.Ledger(self._graph)
    first = self._slices.first.examples
    self._bridges = bridges_lib.Bridges(None if tf.is_tensor(first) else first)
    self._template = template.Template(
      self._bridges, self._slices.first, self._ledger, own_gradients.TYPE
    )

  def _add(self, *parted, rows=(), of_inputs=()):
    """Makes slice 0's ops; `rows` has tensors, and how slices lie in them."""
    named = {x.name: how for x, how in rows}
    self._template.add(
      BatchPlan(parted, named, frozenset(x.op for x in of_inputs))
    )

  def _kinds(self):
    return [x.kind for x in self._bridges.all.values()]

  def _run(self, fetches, x, sizes=(2, 2)):
    """Returns what each slice makes of a batch."""
    return each_slice.run(
      fetches, self._bridges, self._slices.first, sizes, {self._x: x}
    )

  def _plain(self, tensor, x):
    with v1.Session() as session:
      return session.run(tensor, {self._x: x})


def _batch(size):
  return np.random.RandomState(3).randn(size, 3).astype(np.float32)


class GraphTest(_TemplateCase):
  def _layer(self):
    """Adds y = relu(x w) in parts; returns w, the product and y."""
    weight = v1.placeholder_with_default(tf.ones([3, 5]), [3, 5], "w")
    product = tf.matmul(self._x, weight, name="product")
    y = tf.nn.relu(product, "y")
    self._add(
      _parted(product, _OWN, None),
      _parted(y, _OWN),
      rows=[(product, _EACH), (y, _EACH)],
    )
    return weight, product, y

  def test_copies_read_cuts_and_what_all_read(self):
    weight, product, y = self._layer()
    copy = self._template.part(product)
    self.assertIs(self._template.part(y).op.inputs[0], copy)
    cut, read = (self._bridges.all[x.op.name] for x in copy.op.inputs)
    self.assertEqual((cut.kind, cut.rows), (Kind.CUT, _EACH))
    self.assertIs(cut.source, self._x)
    self.assertEqual(read.kind, Kind.READ)
    self.assertIs(read.source, weight)
    self.assertEqual(self._template.part(y).shape.as_list(), [2, 5])
    self.assertEqual(self._template.rows(y), _EACH)
    self.assertEqual(copy.op.device, product.op.device)
    self.assertEqual(copy.op.name, "slice_by_estimator_mp/product")

  def test_the_ledger_knows_for_what_a_copy_is(self):
    _, product, y = self._layer()
    copies = [self._template.part(x).op for x in (product, y)]
    self.assertEqual(self._template.ops, set(copies))
    self.assertEqual(self._ledger.with_role(ledger_lib.Role.SLICE), copies)
    self.assertEqual(
      [self._ledger.made_for[x] for x in copies], [product.op, y.op]
    )

  def test_what_is_executed_once_reads_a_join(self):
    _, product, y = self._layer()
    most, least = tf.reduce_max(y), tf.reduce_min(y)
    self._template.redirect([most.op, least.op])
    join = self._bridges.all[most.op.inputs[0].op.name]
    self.assertEqual(join.kind, Kind.JOIN)
    self.assertIs(join.source, self._template.part(y))
    self.assertEqual(join.output.shape.as_list(), [4, 5])
    self.assertIs(least.op.inputs[0], join.output)  # One for all readers.
    self.assertIsNone(self._template.part(most))
    self.assertIsNot(product.op.inputs[0], join.output)

  def test_the_values_of_slices_are_those_of_the_batch(self):
    _, _, y = self._layer()
    most = tf.reduce_max(y, 0)
    x = _batch(4)
    expected, of_once = self._plain([y, most], x)
    self._template.redirect([most.op])
    found = self._run([self._template.part(y), most], x)
    parts = [part for part, _ in found]
    np.testing.assert_allclose(np.concatenate(parts), expected, 1e-6)
    for _, value in found:
      np.testing.assert_allclose(value, of_once, 1e-6)

  def test_waits_are_for_the_copies(self):
    once = tf.no_op("once")
    first = tf.negative(self._x, name="first")
    with tf.control_dependencies([first, once]):
      second = tf.square(self._x, name="second")
    with tf.control_dependencies([second]):
      after = tf.no_op("after")
    rows = [(first, _EACH), (second, _EACH)]
    self._add(_parted(first, _OWN), _parted(second, _OWN), rows=rows)
    parts = [self._template.part(x).op for x in (first, second)]
    self.assertCountEqual(parts[1].control_inputs, [parts[0], once])
    self._template.redirect([after])
    self.assertEqual(after.control_inputs, [parts[1]])

  def test_a_constant_needs_no_bridge(self):
    two = tf.constant(2.0, name="two")
    y = tf.multiply(self._x, two, name="y")
    self._add(_parted(y, _OWN, None), rows=[(y, _EACH)])
    self.assertIs(self._template.part(y).op.inputs[1], two)
    self.assertEqual(self._kinds(), [Kind.CUT])

  def test_readers_on_one_device_share_a_read(self):
    weight = v1.placeholder_with_default(1.0, [], "w")
    found = [tf.multiply(self._x, weight, name=f"y_{i}") for i in range(2)]
    with tf.device("/device:CPU:1"):
      found.append(tf.multiply(self._x, weight, name="other"))
    self._add(
      *(_parted(x, _OWN, None) for x in found), rows=[(x, _EACH) for x in found]
    )
    reads = [self._template.part(x).op.inputs[1] for x in found]
    self.assertIs(reads[0], reads[1])
    self.assertIsNot(reads[0], reads[2])

  def test_what_slices_add_up_is_whole_where_a_slice_reads_it(self):
    total = tf.reduce_sum(self._x, 0, name="total")
    ratio = tf.divide(self._x, total, name="ratio")
    self._add(
      _parted(total, _OWN, None, shares=(True,)),
      _parted(ratio, _OWN, None),
      rows=[(ratio, _EACH)],
    )
    self.assertEqual(self._kinds(), [Kind.CUT, Kind.SUM, Kind.READ])
    x = _batch(4)
    found = self._run(self._template.part(ratio), x)
    np.testing.assert_allclose(
      np.concatenate(found), self._plain(ratio, x), 1e-5
    )

  def test_what_inputs_alone_make_is_made_once_besides(self):
    mask = tf.sign(self._x, "mask")
    y = tf.multiply(self._x, mask, name="y")
    self._add(
      _parted(mask, _OWN),
      _parted(y, _OWN, _OWN),
      rows=[(mask, _EACH), (y, _EACH)],
      of_inputs=[mask],
    )
    most = tf.reduce_max(mask)
    self._template.redirect([most.op])
    self.assertIs(most.op.inputs[0], mask)
    self.assertTrue(self._template.is_made_twice(mask))
    self.assertFalse(self._template.is_made_twice(y))

  def test_another_axis_of_examples(self):
    turned = tf.transpose(self._x, name="turned")
    y = tf.negative(turned, name="y")
    rows = Rows(1, 1)
    self._add(_parted(y, Cut(rows)), rows=[(y, rows)])
    self.assertEqual(self._template.part(y).shape.as_list(), [3, 2])
    x = _batch(4)
    found = self._run(self._template.part(y), x)
    np.testing.assert_allclose(np.concatenate(found, 1), -x.T)

  def test_a_plan_of_nothing(self):
    before = len(self._graph.get_operations())
    self._add()
    self.assertLen(self._graph.get_operations(), before)

  def test_pairs(self):
    """A gradient that was joined is in the template from then on."""
    whole, part = tf.zeros([4, 3]), tf.zeros([2, 3])
    self._template.pair(whole, part, _EACH)
    self.assertIs(self._template.part(whole), part)
    self.assertIs(self._template.whole(whole), whole)
    self.assertEqual(self._template.joined, {whole.name: _EACH})

  def test_gradients_of_the_program_s_own_are_asked_by_one_function(self):
    @tf.custom_gradient
    def doubled(x):
      return tf.identity(x, name="own"), lambda dy: 2.0 * dy

    y = doubled(self._x)  # An op that passes on its inputs, too.
    reads = [_OWN] * len(y.op.inputs)
    self._add(_parted(y, *reads), rows=[(x, _EACH) for x in y.op.outputs])
    copy = self._template.part(y).op
    self.assertEqual(
      copy.get_attr("_gradient_op_type"), own_gradients.TYPE.encode()
    )
    self.assertEqual([*self._template.own_gradients], [copy.name])


@parameterized.named_parameters(
  ("uneven", 5, (3, 2)), ("more_slices_than_examples", 1, (1, 0))
)
class OpenBatchTest(_TemplateCase):
  """The graph leaves the size of the batch open."""

  size = None

  def test_a_sum(self, size, sizes):
    total = tf.reduce_sum(self._x, 0, name="total")
    self._add(_parted(total, _OWN, None, shares=(True,)))
    self.assertTrue(self._template.is_share(total))
    self._compare(total, size, sizes)

  def test_a_mean(self, size, sizes):
    mean = tf.reduce_mean(self._x, name="mean")
    self._add(
      _parted(mean, _OWN, None, shares=(True,), divisor=_EACH, counted=(1,))
    )
    self.assertEqual([x.type for x in self._template.ops], ["Sum"])
    self._compare(mean, size, sizes)

  def test_a_mean_of_rows_that_only_the_session_counts(self, size, sizes):
    mean = tf.reduce_mean(self._x, 0, name="mean")
    self._add(_parted(mean, _OWN, None, shares=(True,), divisor=Rows(0, None)))
    self._compare(mean, size, sizes)

  def test_moments_of_each_slice(self, size, sizes):
    """Whoever is no slice reads their mean, weighted by examples."""
    mean = tf.reduce_mean(self._x, 0, name="mean")
    centred = tf.subtract(self._x, mean, name="centred")
    self._add(
      _parted(mean, _OWN, None, own=(True,)),
      _parted(centred, _OWN, None),
      rows=[(centred, _EACH)],
    )
    part = self._template.part(centred)
    self.assertIs(part.op.inputs[1], self._template.part(mean))
    self._compare(mean, size, sizes)
    x = _batch(size)
    own = self._run(part, x, sizes)
    for value in own:
      np.testing.assert_allclose(np.mean(value, 0), np.zeros(3), atol=1e-6)

  def test_a_shape_that_names_the_batch(self, size, sizes):
    shape = tf.stack([tf.shape(self._x)[0] * 3])
    flat = tf.reshape(self._x, shape, name="flat")
    rows = Rows(0, 3)
    self._add(_parted(flat, _OWN, Size(0, 3)), rows=[(flat, rows)])
    self._compare(flat, size, sizes)

  def test_what_measures_slices_is_told_of_the_batch(self, size, sizes):
    y = tf.negative(self._x, name="y")
    self._add(_parted(y, _OWN), rows=[(y, _EACH)])
    measures = [tf.shape(y), tf.size(y), tf.rank(y)]
    readers = [tf.identity(x) for x in measures]
    expected = self._plain(readers, _batch(size))
    self._template.redirect([x.op for x in (*measures, *readers)])
    for reader, value in zip(readers, expected, strict=True):
      (found, *_) = self._run(reader, _batch(size), sizes)
      np.testing.assert_array_equal(found, value)

  def _compare(self, tensor, size, sizes):
    """Compares the whole of what slices make with what the plain op does."""
    x = _batch(size)
    expected = self._plain(tensor, x)
    for found in self._run(self._template.whole(tensor), x, sizes):
      np.testing.assert_allclose(found, expected, 1e-6)


class SizesTest(_TemplateCase):
  def test_a_constant_shape(self):
    flat = tf.reshape(self._x, [12], name="flat")
    self._add(_parted(flat, _OWN, Size(0, 3)), rows=[(flat, Rows(0, 3))])
    shape = self._template.part(flat).op.inputs[1]
    self.assertEqual(tf.get_static_value(shape).tolist(), [6])

  def test_places_are_counted_from_the_first_row_of_a_slice(self):
    """Each example takes rows of its own of 3 that it has."""
    rows = tf.reshape(self._x, [12], name="rows")
    taken = v1.placeholder_with_default(
      tf.constant([[0, 2]] * 4), [4, 2], "taken"
    )
    offsets = tf.constant([0, 3, 6, 9], name="offsets")
    indices = tf.reshape(taken + offsets[:, tf.newaxis], [-1], name="indices")
    found = tf.gather(rows, indices, name="found")
    two = Rows(0, 2)
    self._add(
      _parted(rows, _OWN, Size(0, 3)),
      _parted(found, Cut(Rows(0, 3)), Places(two, taken, offsets), None),
      rows=[(rows, Rows(0, 3)), (found, two)],
    )
    x = _batch(4)
    parts = self._run(self._template.part(found), x)
    np.testing.assert_array_equal(np.concatenate(parts), x[:, [0, 2]].ravel())
    feed = {self._x: x, taken: [[0, 3]] * 4}  # The first of the next example.
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      "found gathers rows of other examples than its own, which slices of the "
      "batch do not have; leave num_micro_batches and the data axis out",
    ):
      each_slice.run(
        self._template.part(found),
        self._bridges,
        self._slices.first,
        (2, 2),
        feed,
      )

  def test_a_loop_forgets_the_size_of_the_batch(self):
    _, y = tf.while_loop(
      lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, self._x]
    )
    loop = y.op
    while loop.type not in ("While", "StatelessWhile"):
      loop = loop.inputs[0].op
    counters = (None,) * (len(loop.inputs) - 1)
    (index,) = [i for i, x in enumerate(loop.inputs) if x is self._x]
    reads = [*counters[:index], _OWN, *counters[index:]]
    made = loop.outputs[index]
    self._add(
      PartedOp(loop, tuple(reads), (False,) * len(loop.outputs)),
      rows=[(made, _EACH)],
    )
    x = _batch(4)
    found = self._run(self._template.part(made), x)
    np.testing.assert_allclose(np.concatenate(found), 8 * x)


if __name__ == "__main__":
  absltest.main()
