"""What all-reduces send: as the formulas say, and as a session measures it."""

import collections
from fractions import Fraction

import estimator_mp  # noqa: F401
from estimator_mp import devices as devices_lib
from estimator_mp.collectives import all_reduce as all_reduce_lib
from estimator_mp.observe import executed_graph
from tests import tiers
from tests.estimator_mp import drawn
from tests.estimator_mp.collectives import all_reduce_cases as cases

import hypothesis
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies

v1 = tf.compat.v1

DATA_FLOW = ("copy", "ring", "tree", "hierarchical")
WORKERS = tuple(
  f"/job:worker/task:{task}/device:CPU:{cpu}"
  for task in (0, 1)
  for cpu in (0, 1)
)


def sent_bytes(metadata):
  """Returns the bytes of the tensors that devices sent, by device pair."""
  made = {}
  for stats in metadata.step_stats.dev_stats:
    device = devices_lib.canonical_device(stats.device)
    for node in stats.node_stats:
      for output in node.output:
        description = output.tensor_description
        elements = tf.TensorShape(description.shape).num_elements()
        size = tf.dtypes.as_dtype(description.dtype).size
        made[device, node.node_name, output.slot] = elements * size
  found = collections.Counter()
  for sent in executed_graph.measured_transfers(metadata.partition_graphs):
    if not sent.is_signal:
      key = sent.source, sent.op, sent.output
      found[sent.source, sent.destination] += made[key]
  return {pair: num_bytes for pair, num_bytes in found.items() if num_bytes}


def measure(algorithm, parts, is_known=True):
  """Returns the sums of tensors that variables hold, and what was sent.

  What a session is fed, and what it returns, goes by way of its first device;
  so the step that is measured has neither.
  """
  count = len(parts)
  with tf.Graph().as_default():
    tensors = []
    for part, device in zip(parts, cases.cpus(count), strict=True):
      with tf.device(device):
        value = v1.Variable(part, use_resource=True).read_value()
        known = part.shape if is_known else None
        tensors.append(v1.placeholder_with_default(value, known))
    sums = cases.all_reduce(tensors, algorithm)
    metadata = v1.RunMetadata()
    with v1.Session(config=cases.session_config(count)) as session:
      session.run(v1.global_variables_initializer())
      session.run(
        [result.op for result in sums],
        options=v1.RunOptions(
          trace_level=v1.RunOptions.FULL_TRACE,
          output_partition_graphs=True,
          timeout_in_ms=600_000,
        ),
        run_metadata=metadata,
      )
      results = session.run(sums)
  return results, sent_bytes(metadata)


def formula(algorithm, parts):
  """Returns what an all-reduce of some parts should send."""
  return dict(
    all_reduce_lib.traffic(
      algorithm, parts[0].size, parts.dtype.itemsize, cases.cpus(len(parts))
    )
  )


class MeasuredTest(parameterized.TestCase):
  @parameterized.named_parameters((name, name) for name in DATA_FLOW)
  def test_the_formula_is_what_is_sent(self, algorithm):
    for count, size in ((2, 1), (3, 7), (4, 2), (4, 12), (5, 17), (9, 1000)):
      parts = cases.random_parts(count, [size], tf.float32, size)
      results, sent = measure(algorithm, parts)
      cases.assert_is_sum(parts, results)
      self.assertNotEmpty(sent)
      self.assertEqual(sent, formula(algorithm, parts))

  @tiers.slow
  @hypothesis.given(
    strategies.sampled_from(DATA_FLOW),
    strategies.integers(1, 9),
    strategies.lists(strategies.integers(0, 6), max_size=3),
    strategies.sampled_from(all_reduce_lib.DTYPES),
    strategies.booleans(),
  )
  @drawn.examples(25)
  def test_any_shape(self, algorithm, count, shape, dtype, is_known):
    parts = cases.random_parts(count, shape, dtype, count)
    results, sent = measure(algorithm, parts, is_known)
    cases.assert_is_sum(parts, results)
    # What the graph does not know is cut into a chunk per device, too.
    self.assertEqual(sent, formula(algorithm, parts))

  def test_a_collective_is_no_send_of_the_graph(self):
    parts = cases.random_parts(4, [12], tf.float32, 0)
    results, sent = measure("collective", parts)
    cases.assert_is_sum(parts, results)
    self.assertEqual(sent, {})


class FormulaTest(parameterized.TestCase):
  @hypothesis.given(strategies.integers(2, 12), strategies.integers(0, 10**6))
  @drawn.examples(100)
  def test_a_link_of_a_ring(self, count, num_elements):
    """It is 2 (n - 1) / n of the tensor, exactly if n divides it."""
    sent = all_reduce_lib.traffic("ring", num_elements, 1, cases.cpus(count))
    ideal = Fraction(2 * (count - 1) * num_elements, count)
    names = cases.cpus(count)
    for rank, name in enumerate(names):
      found = sent.get((name, names[(rank + 1) % count]), 0)
      if num_elements % count == 0:
        self.assertEqual(found, ideal)
      self.assertLess(abs(found - ideal), 2)
    self.assertLessEqual(len(sent), count)
    self.assertEqual(sum(sent.values()), 2 * (count - 1) * num_elements)

  @parameterized.named_parameters(
    (
      "copy",
      "copy",
      {(1, 0): 40, (2, 0): 40, (3, 0): 40, (0, 1): 40, (0, 2): 40, (0, 3): 40},
    ),
    ("ring", "ring", {(0, 1): 60, (1, 2): 64, (2, 3): 60, (3, 0): 56}),
    (
      "tree",
      "tree",
      {(1, 0): 40, (2, 0): 40, (3, 1): 40, (0, 1): 40, (0, 2): 40, (1, 3): 40},
    ),
    (
      "hierarchical",
      "hierarchical",
      {(1, 0): 40, (0, 1): 40, (3, 2): 40, (2, 3): 40, (0, 2): 40, (2, 0): 40},
    ),
  )
  def test_ten_floats_on_two_tasks(self, algorithm, expected):
    found = all_reduce_lib.traffic(algorithm, 10, 4, WORKERS)
    self.assertEqual(
      found,
      {(WORKERS[a], WORKERS[b]): size for (a, b), size in expected.items()},
    )

  @parameterized.named_parameters((name, name) for name in DATA_FLOW)
  def test_nothing_to_send(self, algorithm):
    traffic = all_reduce_lib.traffic
    self.assertEmpty(traffic(algorithm, 0, 4, cases.cpus(5)))
    self.assertEmpty(traffic(algorithm, 10, 4, cases.cpus(1)))

  def test_devices_may_be_written_in_any_way(self):
    found = all_reduce_lib.traffic("copy", 1, 8, ["cpu:1", "/gpu:0"])
    names = "/device:CPU:1", "/device:GPU:0"
    self.assertEqual(found, {names: 8, names[::-1]: 8})


if __name__ == "__main__":
  absltest.main()
