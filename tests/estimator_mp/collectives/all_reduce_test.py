"""All-reduces: their sums, what they refuse, and which one is chosen."""

import estimator_mp  # noqa: F401
from estimator_mp.collectives import all_reduce as all_reduce_lib
from estimator_mp.collectives import hierarchical
from estimator_mp.config import algorithms
from tests import tiers
from tests.estimator_mp.collectives import all_reduce_cases as cases

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
all_reduce = cases.all_reduce

ON_CPUS = ("copy", "ring", "tree", "hierarchical", "collective")
SHAPES = ((0,), (), (2,), (3,), (7,), (17,), (3, 5), (2, 0, 3), (2, 3, 4))
WORKERS = tuple(
  f"/job:worker/task:{task}/device:GPU:{gpu}"
  for task in (0, 1, 2)
  for gpu in (0, 1)
)


def placed_inputs(count, dtype, shape):
  """Returns a placeholder on each of some CPU devices."""
  tensors = []
  for device in cases.cpus(count):
    with tf.device(device):
      tensors.append(v1.placeholder(dtype, shape))
  return tensors


def check_sums(algorithm, specs):
  """Adds random tensors of a list of (count, dtype, shape, known shape)."""
  with tf.Graph().as_default():
    fetches, feeds, expected = [], {}, []
    for seed, (count, dtype, shape, known) in enumerate(specs):
      parts = cases.random_parts(count, shape, dtype, seed)
      tensors = placed_inputs(count, dtype, known)
      sums = all_reduce(tensors, algorithm)
      for tensor, result in zip(tensors, sums, strict=True):
        assert result.device == tensor.device, (result, tensor)
        assert repr(result.shape) == repr(tensor.shape), (result, tensor)
      fetches.append(sums)
      feeds |= dict(zip(tensors, parts, strict=True))
      expected.append(parts)
    most = max(count for count, _, _, _ in specs)
    with v1.Session(config=cases.session_config(most)) as session:
      found, again = (
        session.run(fetches, feeds, options=cases.TIMEOUT) for _ in range(2)
      )
  for parts, results, same in zip(expected, found, again, strict=True):
    cases.assert_is_sum(parts, results)
    assert results[0].tobytes() == same[0].tobytes(), "runs differ"


class SumTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_up_to_{most}", name, most)
        for name in ON_CPUS
        for most in (5, 9)
      ]
    )
  )
  def test_any_number_of_devices_and_any_shape(self, algorithm, most):
    check_sums(
      algorithm,
      [
        (count, tf.float32, shape, shape)
        for count in range(1, most + 1)
        for shape in SHAPES
      ],
    )

  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{len(counts)}", name, counts)
        for name in ON_CPUS
        for counts in ((3,), (2, 3, 5))
      ]
    )
  )
  def test_dtypes_and_shapes_that_the_graph_does_not_know(
    self, algorithm, counts
  ):
    unknown = (None, [None], [None, 5])
    check_sums(
      algorithm,
      [
        (count, dtype, shape, known)
        for dtype in all_reduce_lib.DTYPES
        for count in counts
        for shape in ((0, 5), (1, 5), (7, 5))
        for known in (shape, None, (None, 5))
      ]
      + [
        (4, tf.float32, shape, known)
        for shape, known in zip(((1, 1, 1), (3,), (2, 5)), unknown, strict=True)
      ]
      + [(4, tf.float32, (1000003,), (1000003,))],
    )

  @parameterized.named_parameters((name, name) for name in ON_CPUS)
  def test_a_shape_may_change_from_run_to_run(self, algorithm):
    """TensorFlow's collectives take one shape per instance key."""
    with tf.Graph().as_default():
      tensors = placed_inputs(3, tf.float32, [None])
      sums = all_reduce(tensors, algorithm)
      with v1.Session(config=cases.session_config(3)) as session:
        for seed, size in enumerate((5, 1, 0, 17, 2, 5)):
          parts = cases.random_parts(3, [size], tf.float32, seed)
          feeds = dict(zip(tensors, parts, strict=True))
          results = session.run(sums, feeds, options=cases.TIMEOUT)
          cases.assert_is_sum(parts, results)

  @parameterized.named_parameters((name, name) for name in ON_CPUS)
  def test_one_result_can_be_had_alone(self, algorithm):
    """The ops of the other devices run, too; else they are waited for."""
    with tf.Graph().as_default():
      tensors = placed_inputs(4, tf.float64, [3])
      sums = all_reduce(tensors, algorithm)
      parts = cases.random_parts(4, [3], tf.float64, 0)
      feeds = dict(zip(tensors, parts, strict=True))
      with v1.Session(config=cases.session_config(4)) as session:
        for result in sums:
          found = session.run(result, feeds, options=cases.TIMEOUT)
          cases.assert_is_sum(parts, [found])

  @parameterized.named_parameters((name, name) for name in ON_CPUS)
  def test_different_shapes_are_an_error_of_the_session(self, algorithm):
    with tf.Graph().as_default():
      tensors = placed_inputs(3, tf.float32, None)
      sums = all_reduce(tensors, algorithm)
      feeds = {tensors[0]: [1.0], tensors[1]: [1.0], tensors[2]: [1.0, 2.0]}
      with (
        v1.Session(config=cases.session_config(3)) as session,
        self.assertRaises(tf.errors.InvalidArgumentError),
      ):
        session.run(sums, feeds, options=cases.TIMEOUT)

  def test_copy_adds_in_the_order_of_devices(self):
    """Other orders round differently: the numbers are chosen so."""
    parts = cases.random_parts(9, [1000], tf.float32, 0)
    with tf.Graph().as_default():
      tensors = placed_inputs(9, tf.float32, [1000])
      sums = all_reduce(tensors[::-1], "copy")
      with v1.Session(config=cases.session_config(9)) as session:
        found = session.run(sums[0], dict(zip(tensors, parts, strict=True)))
    backwards, forwards = parts[-1].copy(), parts[0].copy()
    for index in range(1, 9):
      backwards += parts[-1 - index]
      forwards += parts[index]
    self.assertEqual(found.tobytes(), backwards.tobytes())
    self.assertNotEqual(found.tobytes(), forwards.tobytes())


class GraphTest(parameterized.TestCase):
  @parameterized.named_parameters((name, name) for name in ON_CPUS)
  def test_the_callers_blocks_change_nothing(self, algorithm):
    """Devices, control dependencies, colocation and names stay outside."""
    graphs = []
    for inside in (False, True):
      with tf.Graph().as_default() as graph:
        tensors = placed_inputs(3, tf.float32, [5])
        unknown = placed_inputs(3, tf.float32, None)
        before = set(graph.get_operations())
        with tf.device("/cpu:7"):
          other = v1.placeholder(tf.float32, [], name="other")
          before.add(other.op)
        if inside:
          with (
            tf.device("/gpu:3"),
            v1.name_scope("scope"),
            tf.control_dependencies([other]),
            v1.colocate_with(other),
          ):
            all_reduce(tensors, algorithm)
            all_reduce(unknown, algorithm)
        else:
          all_reduce(tensors, algorithm)
          all_reduce(unknown, algorithm)
        graphs.append(
          [op.node_def for op in graph.get_operations() if op not in before]
        )
    self.assertEqual(*graphs)
    self.assertEqual({node.device for node in graphs[0]}, {*cases.cpus(3)})
    for node in graphs[0]:
      self.assertStartsWith(node.name, "estimator_mp/all_reduce")

  def test_a_tensor_goes_to_the_device_that_is_given(self):
    with tf.Graph().as_default():
      fed = v1.placeholder(tf.float32, [2])
      sums = all_reduce_lib.all_reduce(
        [fed, 2 * fed], "ring", ["/cpu:1", "/cpu:0"]
      )
      self.assertEqual(
        [result.device for result in sums], ["/device:CPU:1", "/device:CPU:0"]
      )
      with v1.Session(config=cases.session_config(2)) as session:
        found = session.run(sums, {fed: [1.0, 2.0]})
    np.testing.assert_array_equal(found, [[3.0, 6.0], [3.0, 6.0]])

  def test_equal_graphs_have_equal_keys(self):
    """Processes that build one graph each have to agree on the keys."""
    graphs = []
    for _ in range(2):
      with tf.Graph().as_default() as graph:
        for known in ([5], [5], None, None):
          all_reduce(placed_inputs(3, tf.float32, known), "collective")
        graphs.append(graph.as_graph_def())
    self.assertEqual(*graphs)

  def test_nccl(self):
    """It cannot run on this machine, so only its graph is tested."""
    gpus = [f"/device:GPU:{index}" for index in range(3)]
    with tf.Graph().as_default() as graph:
      fed = v1.placeholder(tf.float32, [None])
      results = [
        all_reduce_lib.all_reduce([fed] * 3, "nccl", gpus) for _ in range(2)
      ]
      members = [
        op for op in graph.get_operations() if op.type == "NcclAllReduce"
      ]
    self.assertEqual([op.device for op in members], gpus * 2)
    self.assertEqual([x.device for x in results[1]], gpus)
    names = [op.get_attr("shared_name").decode() for op in members]
    self.assertEqual(
      names,
      ["estimator_mp/all_reduce"] * 3 + ["estimator_mp/all_reduce_1"] * 3,
    )
    for op in members:
      self.assertEqual(op.get_attr("num_devices"), 3)
      self.assertEqual(op.get_attr("reduction"), b"sum")
    for result in results[0]:
      (gate,) = result.op.control_inputs
      self.assertCountEqual(gate.control_inputs, members[:3])


class ErrorsTest(parameterized.TestCase):
  @parameterized.parameters(
    (
      "copy",
      ["/cpu:0"],
      "int32",
      r"whole:0 has .* int32; .* float16, bfloat16",
    ),
    (
      "nccl",
      ["/gpu:0", "/cpu:1"],
      "float32",
      r"'nccl' .* /device:CPU:1, .*'copy'",
    ),
    (
      "nccl",
      WORKERS[1:3],
      "float32",
      r"'nccl' .* 2 tasks, .*task:1/.*'hierarchical'",
    ),
    ("nccl", ["/gpu:0"], "bfloat16", r"'nccl' has no bfloat16, .*'ring'"),
    (
      "collective",
      ["/gpu:0", "/cpu:1"],
      "float32",
      r"'collective' .* /device:GPU:0 and /device:CPU:1 .*'copy'",
    ),
  )
  def test_what_cannot_be_added(self, algorithm, devices, dtype, message):
    with tf.Graph().as_default():
      x = v1.placeholder(dtype, [2], name="whole")
      with self.assertRaisesRegex(ValueError, message):
        all_reduce_lib.all_reduce([x] * len(devices), algorithm, devices)


class ChoiceTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("one_cpu", 10**9, ["/cpu:0"], "copy"),
    ("one_gpu", 10**9, ["/gpu:0"], "copy"),
    ("cpus_small", 8, ["/cpu:0", "/cpu:1"], "copy"),
    ("cpus_large", 10**9, [f"/cpu:{i}" for i in range(9)], "copy"),
    ("gpus_small", 128 * 1024 - 1, ["/gpu:0", "/gpu:1"], "copy"),
    ("gpus_large", 128 * 1024, ["/gpu:0", "/gpu:1"], "nccl"),
    ("gpus_unknown", None, ["/gpu:0", "/gpu:1"], "nccl"),
    # NCCL's op has no bfloat16.
    ("gpus_bfloat16", 10**6, ["/gpu:0", "/gpu:1"], "ring", "bfloat16"),
    ("mixed", 10**9, ["/gpu:0", "/cpu:0"], "copy"),
    ("tasks_small", 1024, WORKERS[:4], "copy"),
    ("many_tasks_small", 1024, WORKERS, "tree"),
    ("tasks_large", 10**6, WORKERS, "hierarchical"),
    ("tasks_unknown", None, WORKERS, "hierarchical"),
    ("a_device_per_task_large", 10**6, WORKERS[::2], "ring"),
  )
  def test_choose_algorithm(self, num_bytes, devices, expected, *dtype):
    found = algorithms.choose_algorithm(num_bytes, devices, *dtype)
    self.assertEqual(found, expected)

  @parameterized.named_parameters(
    ("tasks", WORKERS, [[0, 1], [2, 3], [4, 5]]),
    (
      "tasks_in_turns",
      WORKERS[::2] + WORKERS[1::2],
      [[0, 3], [1, 4], [2, 5]],
    ),
    ("two_cpus", cases.cpus(2), [[0, 1]]),
    ("nine_cpus", cases.cpus(9), [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
  )
  def test_groups(self, devices, expected):
    self.assertEqual(hierarchical.groups_of(devices), expected)


if __name__ == "__main__":
  absltest.main()
