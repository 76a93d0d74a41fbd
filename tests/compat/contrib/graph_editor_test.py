"""tf.contrib.graph_editor: loops, other graphs, and what it refuses."""

import compat

compat.install(v1=True, v1_packages=["tests.compat.contrib"])

import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.contrib import graph_editor as ge  # noqa: E402


def _powers(x):
  return tf.while_loop(
    lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, x], name="powers"
  )[1]


class LoopsTest(absltest.TestCase):
  def test_a_copy_of_a_loop_is_another_loop(self):
    """1.15's copy is part of the same frame, and no session runs it."""
    with tf.Graph().as_default(), tf.Session() as session:
      two, three = tf.constant(2.0), tf.constant(3.0)
      found = _powers(two)
      other = ge.graph_replace(found, {two: three})
      self.assertEqual(session.run([found, other]), [16.0, 81.0])

  def test_a_loop_and_a_branch_in_another_graph(self):
    with tf.Graph().as_default() as graph:
      x = tf.placeholder(tf.float32, [], "x")
      y = tf.cond(x > 0, lambda: _powers(x), lambda: -x)
      ops = graph.get_operations()
    target = tf.Graph()
    _, info = ge.copy(ops, target, "there")
    with tf.Session(graph=target) as session:
      for value, expected in ((2.0, 16.0), (-2.0, 2.0)):
        feed = {info.transformed(x): value}
        self.assertEqual(session.run(info.transformed(y), feed), expected)


class ImportsTest(absltest.TestCase):
  def test_files_of_1_15(self):
    from tensorflow.contrib.graph_editor import select, subgraph, util
    from tensorflow.contrib.graph_editor.transform import graph_replace

    self.assertIs(graph_replace, ge.graph_replace)
    self.assertIs(select.filter_ts, ge.filter_ts)
    self.assertIs(subgraph.SubGraphView, ge.SubGraphView)
    self.assertIs(util.ControlOutputs, ge.ControlOutputs)

  def test_a_transformer_of_the_program_is_refused(self):
    with self.assertRaisesRegex(
      AttributeError, "Use tf.contrib.graph_editor.copy_with_input_replacements"
    ):
      ge.Transformer()


class RefusalsTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.a = tf.constant([1.0, 2.0], name="a")
    self.b = tf.identity(self.a, name="b")
    with tf.Graph().as_default():
      self.elsewhere = tf.constant(1.0, name="elsewhere")

  @parameterized.named_parameters(
    ("type", TypeError, "3 is no tf.Operation", lambda x: ge.sgv_scope("a", 3)),
    (
      "tensor",
      TypeError,
      "is no tf.Operation",
      lambda x: ge.filter_ops(x.a, 1),
    ),
    (
      "no_graph",
      TypeError,
      "None is no tf.Graph",
      lambda x: ge.get_tensors(None),
    ),
    (
      "graph_given",
      TypeError,
      "tf.Graph is not allowed here",
      lambda x: ge.get_forward_walk_ops(x.a.op, within_ops=x.a.graph),
    ),
    (
      "graphs",
      ValueError,
      "elsewhere.* is in another graph",
      lambda x: ge.make_list_of_t([x.a, x.elsewhere]),
    ),
    (
      "views",
      ValueError,
      "two SubGraphViews are of different graphs",
      lambda x: ge.swap_inputs(x.b.op, x.elsewhere.op),
    ),
    (
      "another_graph",
      ValueError,
      "another graph than graph=",
      lambda x: ge.sgv(x.b.op, graph=x.elsewhere.graph),
    ),
    (
      "regex",
      ValueError,
      "A regular expression of names needs graph=",
      lambda x: ge.select_ops("^a"),
    ),
    (
      "no_regex",
      ValueError,
      "3 is no regular expression",
      lambda x: ge.filter_ops_from_regex([x.a.op], 3),
    ),
    (
      "shapes",
      ValueError,
      r"c:0 is float32\(3,\), and a:0 float32\(2,\)",
      lambda x: ge.reroute_ts([tf.zeros([3], name="c")], [x.a]),
    ),
    (
      "counts",
      ValueError,
      "ts0 has 1 tensors and ts1 2",
      lambda x: ge.reroute_ts([x.a], [x.a, x.b]),
    ),
    (
      "waits",
      ValueError,
      "b does not wait for a",
      lambda x: ge.remove_control_inputs(x.b.op, x.a.op),
    ),
    (
      "scope",
      ValueError,
      "b is not in the scope src_scope='s/'",
      lambda x: ge.copy(x.b.op, src_scope="s"),
    ),
    (
      "input",
      ValueError,
      "b:0 is not among the inputs",
      lambda x: ge.sgv(x.b.op).input_index(x.b),
    ),
    (
      "number",
      ValueError,
      "2 is no number of the 1 outputs",
      lambda x: ge.sgv(x.b.op).remap_outputs([2]),
    ),
    (
      "unconnected",
      ValueError,
      "No target depends on .*resource",
      lambda x: ge.graph_replace(x.a, {x.b: x.a}),
    ),
    (
      "boundary",
      ValueError,
      "seed_ops and boundary_ops have ops in common",
      lambda x: ge.get_within_boundary_ops([], [x.a.op], [x.a.op]),
    ),
    (
      "both_controls",
      ValueError,
      "control_outputs or control_ios, not both",
      lambda x: ge.check_cios(False, *[ge.ControlOutputs(x.a.graph)] * 2),
    ),
  )
  def test_says_what_is_wrong(self, error, message, use):
    with self.assertRaisesRegex(error, message):
      use(self)


if __name__ == "__main__":
  absltest.main()
