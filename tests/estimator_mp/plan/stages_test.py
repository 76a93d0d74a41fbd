"""Stages as data: which stage each op is on; no session runs."""

import types
from unittest import mock

import estimator_mp
from estimator_mp.config import placement as placement_lib
from estimator_mp.graph import ledger
from estimator_mp.placement import propagation, strategies
from estimator_mp.plan import stages
from tests.estimator_mp import drawn

import hypothesis
import tensorflow as tf
from absl.testing import absltest
from hypothesis import strategies as st

v1 = tf.compat.v1

_SIZE = 4
_BY_LETTER = (("^a", 0), ("^b", 1))


def _value(name):
  """Makes a variable, and returns what is read of it."""
  handle = tf.raw_ops.VarHandleOp(
    dtype=tf.float32, shape=[_SIZE, _SIZE], shared_name=name, name=name
  )
  return tf.raw_ops.ReadVariableOp(
    resource=handle, dtype=tf.float32, name=f"{name}/value"
  )


def _input(name="x"):
  return v1.placeholder(tf.float32, [None, _SIZE], name)


def _layer(x, name):
  return tf.matmul(x, _value(name), name=f"{name}/product")


def _by_name(found):
  return {op.name: stage for op, stage in found.items()}


class _Recorded:
  """A strategy that puts ops where it is told, and keeps what it is asked."""

  def __init__(self, **stages):
    self.stages = stages
    self.asked = []
    self.checked = None

  def stages_of(self, ops, targets, groups):
    del groups
    self.asked.append(([op.name for op in ops], list(targets)))
    return {op: self.stages[op.name] for op in ops if op.name in self.stages}

  def check(self, ops):
    self.checked = [op.name for op in ops]


class _StagesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())
    self._seen = 0

  def _plan(self, placement="auto", mesh="stage:2", mode="train", **options):
    config = estimator_mp.ShardingConfig(mesh, placement=placement, **options)
    self.mesh = config.create_mesh()
    self.ledger = ledger.Ledger(self.graph)
    self.planner = stages.StagePlanner(config, self.mesh, mode, self.ledger)

  def _plan_by(self, **known):
    """Plans by a strategy of the test's own, and returns it."""
    strategy = _Recorded(**known)
    with mock.patch.object(strategies, "make_strategy", lambda *_: strategy):
      self._plan()
    return strategy

  def _new(self):
    """Adds the ops that were made since the last call, and returns them."""
    new = self.graph.get_operations()[self._seen :]
    self._seen += len(new)
    self.of_savers = self.planner.add(new)
    return new

  def _forward(self, *targets):
    """Returns the names of the ops that get a stage, with it."""
    return _by_name(self.planner.plan_forward(self._new(), targets))

  def _stage(self, name):
    return self.planner.stages[self.graph.get_operation_by_name(name)]


class ForwardTest(_StagesTest):
  def test_what_rules_do_not_place_follows_what_it_reads(self):
    self._plan(_BY_LETTER)
    first = tf.nn.relu(_layer(_input(), "a"), name="hidden")
    second = _layer(first, "b")
    tf.reduce_sum(tf.add(first, second, name="skip"), name="loss")
    self.assertEqual(
      self._forward(),
      {
        "x": 0,
        "a": 0,
        "a/value": 0,
        "a/product": 0,
        "hidden": 0,
        "b": 1,
        "b/value": 1,
        "b/product": 1,
        "skip": 1,
        "Const": 1,
        "loss": 1,
      },
    )

  def test_a_further_part_is_new(self):
    """What has got no stage yet may be placed then."""
    strategy = self._plan_by(a=1)
    target = _layer(_input(), "a").op
    tf.zeros([], name="alone")
    self._forward(target)
    tf.nn.relu(target.outputs[0], name="after")
    self.assertEqual(self._forward(), {"after": 1})
    first = ["x", "a", "a/value", "a/product", "alone"]
    self.assertEqual(
      strategy.asked, [(first, [target]), (["alone", "after"], [])]
    )
    self.assertEqual([op.name for op in self.planner.ops], [*first, "after"])

  def test_a_strategy_is_asked_for_whole_groups(self):
    """Not for what has to be where a part before has put something."""
    strategy = self._plan_by(a=1)
    _layer(_input(), "a")
    self._forward()
    handle = self.graph.get_tensor_by_name("a:0")
    tf.raw_ops.VariableShape(input=handle, name="shape")
    self.assertEqual(self._forward(), {"shape": 1})
    self.assertEqual(strategy.asked[1], ([], []))

  def test_training_s_placement_is_kept(self):
    saved = placement_lib.Placement(
      (), types.MappingProxyType({"a": 1, "b": 0})
    )
    config = estimator_mp.ShardingConfig("stage:2")
    self.planner = stages.StagePlanner(
      config, config.create_mesh(), "eval", ledger.Ledger(self.graph), saved
    )
    _layer(_input(), "a")
    _layer(_input("y"), "b")
    self._forward()
    self.assertEqual((self._stage("a"), self._stage("b")), (1, 0))


class MarksTest(_StagesTest):
  def _marked_layers(self, first, second):
    with self.mesh.stage(first):
      net = _layer(_input(), "a")
    with self.mesh.stage(second):
      net = _layer(net, "b")
    return net

  def test_marks_take_the_place_of_a_strategy(self):
    strategy = self._plan_by(a=0, b=0, after=0)
    tf.nn.relu(self._marked_layers(1, 0), name="before")
    tf.nn.relu(self.graph.get_tensor_by_name("a/product:0"), name="after")
    self._forward()
    self.assertEqual(
      _by_name(self.planner.stages),
      {
        "x": 1,
        "a": 1,
        "a/value": 1,
        "a/product": 1,
        "b": 0,
        "b/value": 0,
        "b/product": 0,
        "before": 0,
        "after": 1,
      },
    )
    self.planner.check()
    self.assertEqual((strategy.asked, strategy.checked), ([], None))

  def test_marks_of_one_stage_are_kept_by_a_strategy(self):
    strategy = self._plan_by(c=0, b=0)
    self._marked_layers(1, 1)
    _layer(_input("y"), "c")
    self._forward()
    self.assertEqual((self._stage("b"), self._stage("c")), (1, 0))
    self.assertEqual(strategy.asked, [(["y", "c", "c/value", "c/product"], [])])
    self.planner.check()
    self.assertEqual(strategy.checked, [op.name for op in self.planner.ops])

  def test_rules_place_what_is_not_marked(self):
    self._plan((("^c", 0), (".", 1)))
    self._marked_layers(0, 1)
    _layer(_input("y"), "c")
    _layer(_input("z"), "d")
    self._forward()
    self.assertEqual([self._stage(x) for x in "abcd"], [0, 1, 0, 1])
    self.planner.check()

  def test_only_the_first_part_is_marked(self):
    """Later ones have devices: gradients are beside their forward ops."""
    strategy = self._plan_by()
    tf.zeros([])
    self._forward()
    self._marked_layers(0, 1)
    self.assertEqual(self._forward(), {})
    self.assertEqual((self._stage("a"), self._stage("b")), (0, 1))
    self.assertLen(strategy.asked, 2)

  def test_a_device_of_several_stages_is_no_mark(self):
    """Savers may be on one: they are of no stage."""
    self._plan(
      schedule="interleaved", num_micro_batches=4, num_virtual_stages=2
    )
    kernel = v1.get_variable("kernel", [4], use_resource=True)
    with v1.device("/device:CPU:0"):
      v1.train.Saver([kernel])
    with v1.device("/device:CPU:1"):
      _layer(_input(), "a")
    with self.assertRaisesRegex(
      ValueError, r"puts 'x' on /device:CPU:1, which has several stages"
    ):
      self._forward()

  def test_a_loop_is_of_one_stage(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    self._plan()

    def body(i):
      with self.mesh.stage(0):
        i = tf.add(i, 1.0, name="early")
      with self.mesh.stage(1):
        return tf.add(i, 1.0, name="late")

    v1.while_loop(lambda i: i < 3.0, body, [0.0])
    with self.assertRaisesRegex(
      ValueError, "cuts through a loop: 'while/early/y?' is on stage 0"
    ):
      self._forward()

  def test_a_stage_has_a_device_for_each_part_of_the_model(self):
    self._plan(mesh="stage:2,model:2")
    for i in range(4):
      with v1.device(f"/device:CPU:{i}"):
        tf.zeros([], name=f"on_{i}")
    with v1.device("/device:CPU:7"):
      tf.zeros([], name="elsewhere")
    self.planner.adopt_devices(self._new())
    self.assertEqual(
      _by_name(self.planner.stages),
      {"on_0": 0, "on_1": 0, "on_2": 1, "on_3": 1},
    )


class SaversTest(_StagesTest):
  def test_they_follow_variables(self):
    """Not the device that they were made on."""
    strategy = self._plan_by(kernel=1)
    kernel = v1.get_variable("kernel", [4], use_resource=True)
    with v1.device("/device:CPU:0"):
      v1.train.Saver([kernel])
    found = self._forward()
    names = {op.name for op in self.of_savers}
    self.assertContainsSubset(
      {"save/RestoreV2", "save/AssignVariableOp", "save/SaveV2"}, names
    )
    self.assertNotIn("kernel/Assign", names)
    ((asked, _),) = strategy.asked
    self.assertNoCommonElements(asked, names)
    self.assertEqual(found["save/AssignVariableOp"], 1)
    self.assertEqual(found["kernel/Assign"], 1)


class GradientsTest(_StagesTest):
  def setUp(self):
    super().setUp()
    self.strategy = self._plan_by(a=0, b=1)
    net = _layer(_layer(_input(), "a"), "b")
    self.sources = [self.graph.get_tensor_by_name(f"{x}:0") for x in "ab"]
    self.net = net
    self._forward()

  def test_beside_their_variables(self):
    dense = tf.zeros([4, 4], name="dense")
    sparse = tf.IndexedSlices(
      tf.zeros([1, 4], name="values"),
      tf.zeros([1], tf.int32, name="indices"),
      tf.constant([4, 4], name="shape"),
    )
    self.planner.plan_gradients(
      self._new(), [*self.sources, self.net], [sparse, dense, None]
    )
    found = [self._stage(x) for x in ("values", "indices", "shape", "dense")]
    self.assertEqual(found, [0, 0, 0, 1])

  def test_of_what_has_a_handle(self):
    variable = types.SimpleNamespace(handle=self.sources[1])
    self.planner.plan_gradients(
      self._new(), [variable], [tf.zeros([], name="dense")]
    )
    self.assertEqual(self._stage("dense"), 1)

  def test_a_stage_or_a_device_of_its_own_is_kept(self):
    with self.mesh.stage(0):
      marked = tf.zeros([], name="marked")
    with v1.device("/device:GPU:0"):
      elsewhere = tf.zeros([], name="elsewhere")
    forward = self.graph.get_tensor_by_name("a/product:0")
    b = self.sources[1]
    self.planner.plan_gradients(
      self._new(), [b, b, b], [marked, elsewhere, forward]
    )
    self.assertEqual((self._stage("marked"), self._stage("a/product")), (0, 0))
    self.assertNotIn(elsewhere.op, self.planner.stages)

  def test_with_respect_to_what_has_no_stage(self):
    alone = tf.zeros([], name="alone")
    gradient = tf.zeros([], name="gradient")
    self.planner.plan_gradients(self._new(), [alone], [gradient])
    self.assertNotIn(gradient.op, self.planner.stages)


class RestTest(_StagesTest):
  def _large_and_small(self):
    self._plan_by(large=0, small=1)
    large, small = tf.zeros([8, 8], name="large"), tf.zeros([], name="small")
    self._forward()
    tf.multiply(large, small, name="scaled")
    tf.zeros([], name="alone")

  def test_an_update_follows_the_largest_input(self):
    self._large_and_small()
    self._new()
    self.assertEqual(_by_name(self.planner.plan_rest()), {"scaled": 0})
    self.assertEqual(self._stage("scaled"), 0)

  def test_a_forward_op_follows_the_latest_input(self):
    self._large_and_small()
    self.assertEqual(self._forward(), {"scaled": 1})

  def test_some_ops(self):
    self._large_and_small()
    new = self._new()
    follows = propagation.Follows.LARGEST_INPUT
    found = self.planner.propagate(new[:1], follows)
    self.assertEqual(_by_name(found), {"scaled": 0})
    self.assertEqual(self.planner.plan_rest(), {})

  def test_what_lowering_makes_of_an_op(self):
    self._large_and_small()
    small, alone = map(self.graph.get_operation_by_name, ("small", "alone"))
    with self.ledger.creating(ledger.Role.PART, small):
      copy = tf.zeros([], name="copy").op
    with self.ledger.creating(ledger.Role.SLICE, copy):
      of_copy = tf.zeros([], name="of_copy").op
    with self.ledger.creating(ledger.Role.PART, alone):
      other = tf.zeros([], name="other").op
    self.assertEqual(self.planner.stage_of(of_copy), 1)
    self.planner.add([copy, of_copy, other])
    self.assertEqual(self._stage("copy"), 1)
    self.assertEqual(self._stage("of_copy"), 1)
    self.assertNotIn(other, self.planner.stages)
    self.assertEqual(self.planner.stage_of(other), 0)


class StrategyTest(_StagesTest):
  def test_as_many_stages_as_the_mesh_has(self):
    self._plan(mesh="data:1,stage:3")
    net = _input()
    self._seen = 1  # Features are no part of the model.
    for name in "abc":
      kernel = v1.get_variable(name, [_SIZE, _SIZE], use_resource=True)
      net = tf.matmul(net, kernel)
    self._forward(net.op)
    self.assertEqual([self._stage(x) for x in "abc"], [0, 1, 2])

  def test_each_rule_matches_something(self):
    """But in evaluation, which may do without a part of the model."""
    rules = (("^a", 0), ("^missing", 1), (".", 0))
    self._plan(rules)
    _layer(_input(), "a")
    self._forward()
    with self.assertRaisesRegex(ValueError, "'\\^missing', 1. matches no"):
      self.planner.check()
    self._plan(rules, mode="eval")
    self.planner.add(self.graph.get_operations())
    self.planner.check()


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
      planner = stages.StagePlanner(
        config, config.create_mesh(), "train", ledger.Ledger(graph)
      )
      ops = graph.get_operations()
      planner.add(ops)
      found = planner.plan_forward(ops, [])
    self.assertCountEqual(found, ops)
    self.assertEqual({op: found[op] for op in expected}, expected)
    for op in ops:  # Activations are sent to later stages only.
      for tensor in op.inputs:
        self.assertLessEqual(found[tensor.op], found[op], op.name)


if __name__ == "__main__":
  absltest.main()
