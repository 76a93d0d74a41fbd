"""Stages as data: which stage each op is on; no session runs."""

import estimator_mp
from estimator_mp.graph import colocation
from estimator_mp.planning import stages
from tests.estimator_mp import drawn, graph_case

import hypothesis
import tensorflow as tf
from absl.testing import absltest
from hypothesis import strategies as st

v1 = tf.compat.v1

_SIZE = 4


def _input(name="x"):
  return v1.placeholder(tf.float32, [None, _SIZE], name)


def _layer(x, name):
  kernel = v1.get_variable(name, [_SIZE, _SIZE], use_resource=True)
  return tf.matmul(x, kernel, name=f"{name}/product")


def _planned(config, *targets):
  """Returns the stages of the ops that make targets, without features."""
  graph = v1.get_default_graph()
  ops = [op for op in graph.get_operations() if op.type != "Placeholder"]
  groups = colocation.ColocationGroups()
  groups.add(ops)
  return stages.plan_forward(ops, targets, groups, config, config.create_mesh())


class MarksTest(graph_case.GraphCase):
  """Layers a and b are marked, one after the other, and c and d are not."""

  def _stages(self, first, second, placement):
    config = estimator_mp.ShardingConfig("stage:2", placement=placement)
    mesh = config.create_mesh()
    with mesh.stage(first):
      a = _layer(_input(), "a")
    with mesh.stage(second):
      b = _layer(a, "b")
    tf.nn.relu(a, "after_a")
    tf.nn.relu(b, "after_b")
    target = _layer(_layer(_input("y"), "c"), "d")
    found = _planned(config, target.op)
    return {op.name: stage for op, stage in found.items()}

  def test_rules_place_what_is_not_marked(self):
    found = self._stages(0, 1, (("^c", 0), (".", 1)))
    self.assertEqual([found[x] for x in "abcd"], [0, 1, 0, 1])

  def test_marks_take_the_place_of_a_strategy(self):
    """What is not marked follows what it reads, or has no stage yet."""
    found = self._stages(1, 0, "auto")
    names = ("a", "a/product", "after_a", "b", "b/product", "after_b")
    self.assertEqual([found[x] for x in names], [1, 1, 1, 0, 0, 0])
    self.assertNotIn("c", found)

  def test_marks_of_one_stage_do_not(self):
    found = self._stages(1, 1, "auto")
    self.assertEqual([found[x] for x in "abcd"], [1, 1, 0, 1])


# For each layer: how many stages later it is than the one before; which of the
# tensors so far it reads; and which two of them are added after it.
_LAYERS = st.lists(
  st.tuples(st.integers(0, 1), *[st.integers(0, 99)] * 3),
  min_size=1,
  max_size=8,
)


class AnyModelTest(absltest.TestCase):
  @hypothesis.given(layers=_LAYERS)
  @drawn.examples(50)
  def test_an_op_is_where_the_last_of_its_variables_is(self, layers):
    with tf.Graph().as_default() as graph:
      tensors = [_input()]
      placement, expected, stage = [], {}, 0
      for i, (step, *reads) in enumerate(layers):
        stage += step
        placement.append((f"^w{i}$", stage))
        one, two, three = (tensors[x % len(tensors)] for x in reads)
        product = _layer(one, f"w{i}")
        both = tf.add(two, three)
        expected[product.op] = stage
        known = [expected[x.op] for x in (two, three) if x.op in expected]
        if known:
          expected[both.op] = max(known)
        tensors += [product, both]
      expected[tf.add_n(tensors).op] = stage
      config = estimator_mp.ShardingConfig(
        f"stage:{stage + 1}", placement=placement
      )
      found = _planned(config)
    self.assertCountEqual(found, graph.get_operations()[1:])
    self.assertEqual({op: found[op] for op in expected}, expected)
    for op in found:  # Activations are sent to later stages only.
      for tensor in op.inputs:
        self.assertLessEqual(found.get(tensor.op, 0), found[op], op.name)


if __name__ == "__main__":
  absltest.main()
