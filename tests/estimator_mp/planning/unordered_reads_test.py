"""Reads that nothing keeps before a write of their variable."""

import functools

import estimator_mp
from estimator_mp.graph import traversal
from estimator_mp.planning import unordered_reads
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import data

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _step(use_resource):
  return v1.get_variable(
    "step", [], initializer=tf.zeros_initializer(), use_resource=use_resource
  )


def _found(*fetches):
  """What is found in the step that makes fetches, by names."""
  step = traversal.ops_run_with(*(getattr(x, "op", x) for x in fetches))
  graph = v1.get_default_graph()
  found = unordered_reads.find([x for x in graph.get_operations() if x in step])
  return {
    write.name: [read.name for read in reads] for write, reads in found.items()
  }


def _ordered_already(step):
  rate = tf.cast(step, tf.float64)
  with tf.control_dependencies([rate]):
    write = v1.assign(step, tf.cast(rate, tf.float32) + step)
  with tf.control_dependencies([write]):
    return write, rate, tf.cast(step, tf.float64)


def _made_later(step):
  write = v1.assign_add(step, 1.0)
  return write, tf.cast(tf.identity(step), tf.float64)


def _waiting(step):
  """It comes late in the plain run, too."""
  with tf.control_dependencies([tf.random.uniform([])]):
    rate = tf.cast(step, tf.float64)
  return v1.assign_add(step, 1.0), rate


def _not_in_the_step(step):
  tf.cast(step, tf.float64)
  return (v1.assign_add(step, 1.0),)


class FindTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  @parameterized.parameters(True, False)
  def test_beside_a_write(self, use_resource):
    step = _step(use_resource)
    rate = tf.cast(step, tf.float64, name="rate")
    write = v1.assign(step, step + 1.0, name="write")
    read = "rate/ReadVariableOp" if use_resource else "rate"
    self.assertEqual(_found(write.op, rate), {write.op.name: [read]})

  def test_a_write_waits_for_all_reads(self):
    step = _step(use_resource=True)
    rates = [tf.cast(step, tf.float64, name=name) for name in ("a", "b")]
    write = v1.assign(step, tf.constant(1.0))
    reads = ["a/ReadVariableOp", "b/ReadVariableOp"]
    self.assertEqual(_found(write.op, *rates), {write.op.name: reads})

  @parameterized.product(
    make=[_ordered_already, _made_later, _waiting, _not_in_the_step],
    use_resource=[True, False],
  )
  def test_nothing_to_order(self, make, use_resource):
    write, *fetches = make(_step(use_resource))
    self.assertEmpty(_found(write.op, *fetches))

  def test_on_another_device(self):
    """There a copy is read."""
    step = _step(use_resource=False)
    with tf.device("/device:CPU:1"):
      rate = tf.cast(step, tf.float64)
    self.assertEmpty(_found(v1.assign_add(step, 1.0).op, rate))

  def test_branches(self):
    """Of control flow v1, an op that does not run would keep the write."""
    step = _step(use_resource=True)
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    half = tf.cond(
      tf.random.uniform([]) > 0.5, lambda: step.read_value(), lambda: 0.0
    )
    (turns,) = tf.nest.flatten(
      tf.while_loop(lambda x: x < 3.0, lambda x: x + step.read_value(), [1.0])
    )
    self.assertEmpty(_found(v1.assign_add(step, 1.0).op, half, turns))

  def test_function_that_writes(self):
    step = _step(use_resource=True)
    rate = tf.cast(step, tf.float64, name="rate")
    write = tf.cond(
      tf.random.uniform([]) > 0.5,
      lambda: step.assign_add(1.0, read_value=False).type == "",
      lambda: False,
    )
    (found,) = _found(write, rate).items()
    self.assertEqual(found[1], ["rate/ReadVariableOp"])

  @parameterized.parameters(True, False)
  def test_optimizers(self, use_resource):
    """What TensorFlow's do is in order."""
    counter = v1.train.get_or_create_global_step()
    kernel = v1.get_variable("kernel", [4, 4], use_resource=use_resource)
    loss = tf.reduce_sum(tf.square(tf.random.normal([2, 4]) @ kernel))
    rate = v1.train.exponential_decay(0.1, counter, 10, 0.9)
    train_op = v1.train.AdamOptimizer(rate).minimize(loss, counter)
    self.assertEmpty(_found(train_op, loss))


def _counting_beside(features, labels, mode, reads_first=False):
  """Counts steps as BERT's optimizer does."""
  counter = v1.train.get_global_step()
  rate = v1.train.polynomial_decay(0.1, counter, 10)
  net = v1.layers.dense(features["x"], 8, tf.tanh)
  logits = v1.layers.dense(net, 1)
  loss = tf.reduce_mean(tf.square(logits - labels))
  train_op = v1.train.GradientDescentOptimizer(rate).minimize(loss)
  with tf.control_dependencies([rate] if reads_first else []):
    counted = counter.assign(counter + 1, read_value=False)
  return parts.spec(mode, loss, tf.group(train_op, counted))

  def test_nothing_waits_for_the_beginning_of_a_loop(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    with tf.Graph().as_default():
      step = _step(use_resource=False)
      value = tf.identity(step)
      _, total = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, x: (i + 1, x + value),
        [tf.constant(0), tf.constant(0.0)],
      )
      self.assertEmpty(_found(total, v1.assign_add(step, 1.0)))


class ReferencesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self._weight = v1.get_variable("weight", [2, 2], use_resource=False)

  def _found(self, *fetches):
    """Returns the readers that a write of the weight has to wait for."""
    step = traversal.ops_run_with(*(getattr(x, "op", x) for x in fetches))
    ops = [x for x in v1.get_default_graph().get_operations() if x in step]
    found = unordered_reads.find_of_references(ops)
    return sorted(x.name for reads in found.values() for x in reads)

  def test_who_reads_its_memory_comes_first(self):
    flat = tf.reshape(self._weight, [-1])
    first = tf.exp(flat, name="first")
    second = tf.square(tf.identity(self._weight), name="second")
    write = v1.assign_add(self._weight, tf.ones([2, 2]))
    self.assertEqual(self._found(first, second, write), ["first", "second"])

  def test_who_reads_what_was_written_comes_after(self):
    before = tf.exp(self._weight, name="before")
    write = v1.assign_add(self._weight, before)
    with tf.control_dependencies([write]):
      after = tf.square(tf.identity(self._weight))
    self.assertEmpty(self._found(write, after))

  def test_a_handle_gives_a_value_that_stays(self):
    handle = v1.get_variable("handle", [2], use_resource=True)
    read = tf.exp(handle)
    self.assertEmpty(self._found(read, handle.assign_add([1.0, 1.0])))

  def test_readers_in_loops_and_branches(self):
    """Nothing outside may wait for them, but for what they lead to."""
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    weight = tf.identity(self._weight)
    _, power = tf.while_loop(
      lambda i, _: i < 3,
      lambda i, x: (i + 1, tf.matmul(x, weight)),
      [tf.constant(0), tf.ones([2, 2])],
      name="loop",
    )
    chosen = tf.cond(
      v1.placeholder(tf.bool, []),
      lambda: tf.exp(weight),
      lambda: tf.ones([2, 2]),
      name="choice",
    )
    write = v1.assign_add(self._weight, tf.ones([2, 2]))
    self.assertEqual(
      self._found(power, chosen, write), ["choice/Merge", "loop/Exit_1"]
    )


class StepTest(parameterized.TestCase):
  @parameterized.parameters(
    ("stage:2", 1), ("stage:2", 4), ("data:2", 1), ("model:2", 1)
  )
  def test_reads_come_first(self, mesh, num_micro_batches):
    batch = programs.examples(data.BATCH, 0, 24)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    # The plain step would read what it wrote, now and then.
    in_order = functools.partial(_counting_beside, reads_first=True)
    plain = programs.Program(in_order, None, batch)
    program = programs.Program(_counting_beside, config, batch)
    (counted,) = [
      x
      for x in program.graph.get_operations()
      if x.type == "AssignVariableOp"
      and x.inputs[0].op.name == "global_step"
      and x.inputs[1].op.type == "AddV2"
    ]
    self.assertIn(
      "PolynomialDecay/Cast_2/ReadVariableOp",
      [x.name for x in counted.control_inputs],
    )
    programs.assert_same_steps(self, plain, program, [batch] * 3)


if __name__ == "__main__":
  absltest.main()
