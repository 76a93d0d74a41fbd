"""The table of op types, beside what TensorFlow has registered."""

import types

import estimator_mp  # noqa: F401, before TensorFlow
from compat.private import op_registry
from estimator_mp.graph import op_types

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# What ops call the handle of a variable, or of a table.
_VARIABLES = ("resource", "ref", "var", "table_handle")
# TensorFlow's own tests make these.
_OF_TESTS = (
  "FakeQueue",
  "RefOut",
  "RefOutput",
  "RefOutputFloatOutput",
  "ResourceCreateOp",
  "ResourceInitializedOp",
  "ResourceUsingOp",
  "StubResourceHandleOp",
)


class _Reference:
  """A dtype of references."""

  base_dtype = tf.float32
  as_datatype_enum = tf.float32.as_datatype_enum + 100


def _handles(arguments):
  return [a for a in arguments if a.is_ref or a.type == tf.resource]


def _begins(text):
  return lambda name: name.startswith(text)


class RegistryTest(absltest.TestCase):
  def test_every_maker_is_in_the_table(self):
    """A new TensorFlow may have more of them: these are refused until then."""
    makers = {
      op.name
      for op in op_registry.registered_ops()
      if _handles(op.output_arg) and not _handles(op.input_arg)
    }
    self.assertGreater(len(makers), 60)
    self.assertContainsSubset(makers - op_types.STATE_SCOPES.keys(), _OF_TESTS)

  def test_every_name_is_registered(self):
    """No name of the table is misspelt."""
    known = {op.name for op in op_registry.registered_ops()}
    names, beginnings = set(), set()
    for name, table in vars(op_types).items():
      if isinstance(table, (frozenset, dict)) and name.isupper():
        names |= set(table)
      elif isinstance(table, tuple) and table is not op_types.HOST_WORDS:
        beginnings |= set(table)
    self.assertGreater(len(names), 200)
    self.assertEmpty(names - known)
    unknown = {x for x in beginnings if not any(map(_begins(x), known))}
    self.assertEmpty(unknown)
    for word in op_types.HOST_WORDS:
      self.assertNotEmpty([x for x in known if word in x])

  def test_every_draw_from_a_seed_is_known(self):
    found = {}
    for op in op_registry.registered_ops():
      inputs = [a.name for a in op.input_arg]
      seeds = [name for name in ("seed", "key") if name in inputs]
      if op.name.startswith("Stateless") and seeds and op.output_arg:
        found[op.name] = inputs.index(seeds[0])
    # These make keys of seeds.
    del found["StatelessRandomGetKeyCounter"]
    del found["StatelessRandomGetKeyCounterAlg"]
    self.assertEqual(found, op_types.SEED_INPUTS)

  def test_writes(self):
    """Whatever else works on a variable or a table changes it."""
    others = ("Collective", "Destroy", "DisableCopy", "ReadVariableXla")
    found: set[str] = set()
    missing: set[str] = set()
    for op in op_registry.registered_ops():
      handles = [a for a in op.input_arg if a.name in _VARIABLES]
      if (
        _handles(handles)
        and op.name not in op_types.STATE_READS | op_types.MOVES_GENERATOR
        and op.name not in op_types.STATE_SCOPES
        and not op.name.startswith(others)
        and not op.name.endswith("GetDevice")
        and op.name not in _OF_TESTS
      ):
        dtypes = [tf.resource if a.type else _Reference() for a in handles]
        inputs = [types.SimpleNamespace(dtype=dtype) for dtype in dtypes]
        node = types.SimpleNamespace(type=op.name, inputs=inputs)
        found.add(op.name)
        missing |= set() if op_types.is_write(node) else {op.name}
    self.assertGreater(len(found), 60)
    self.assertEmpty(missing)


class PredicatesTest(parameterized.TestCase):
  @parameterized.named_parameters(("resource", True), ("reference", False))
  def test_a_variable(self, use_resource):
    with tf.Graph().as_default() as graph:
      v = v1.get_variable("v", [2], use_resource=use_resource)
      v1.assign_add(v, [1.0, 1.0])
      ops = graph.get_operations()
    self.assertEqual(op_types.variables_of(ops), [v.op])
    self.assertTrue(op_types.is_handle(v.op.outputs[0]))
    self.assertEqual(op_types.is_reference(v.op.outputs[0]), not use_resource)
    writes = [op for op in ops if op_types.is_write(op)]
    self.assertContainsSubset([v.initializer], writes)
    self.assertLen(writes, 2)
    self.assertFalse(op_types.is_write(v.op))

  def test_the_same_name_without_a_handle_is_no_write(self):
    with tf.Graph().as_default():
      op = tf.scatter_nd([[0]], [1.0], [2]).op
    self.assertStartsWith(op.type, "Scatter")
    self.assertFalse(op_types.is_write(op))

  def test_writes_of_rows(self):
    with tf.Graph().as_default() as graph:
      v = v1.get_variable("v", [2], use_resource=True)
      v.scatter_add(tf.IndexedSlices([1.0], [0]))
      v.assign([1.0, 2.0])
      v.scatter_nd_add([[0]], [1.0])
    self.assertEqual(
      [op.type for op in graph.get_operations() if op_types.is_row_write(op)],
      ["ResourceScatterAdd"],
    )

  def test_calls(self):
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [])
      tf.cond(x > 0.0, lambda: x, lambda: -x)
    found = [op.type for op in graph.get_operations() if op_types.is_call(op)]
    self.assertEqual(found, ["StatelessIf"])


if __name__ == "__main__":
  absltest.main()
