"""Reducing over processes, with a stand-in for Horovod, and without it."""

import sys
from unittest import mock

from estimator_mp.replicas import horovod as horovod_aggregation
from tests.estimator_mp.replicas import horovod_stand_in

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

HARD = v1.ConfigProto(
  allow_soft_placement=False,
  device_count={"CPU": 3},
  use_per_session_threads=True,
)


class MissingTest(absltest.TestCase):
  def test_error_says_how_to_install_it(self):
    missing = {"horovod": None, "horovod.tensorflow": None}
    with (
      mock.patch.dict(sys.modules, missing),
      self.assertRaises(ImportError) as raised,
    ):
      horovod_aggregation.load_horovod()
    for text in (
      f'aggregation="horovod" needs Horovod for TensorFlow {tf.__version__}, ',
      "HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation horovod",
      "horovodrun -np 2 python program.py",
    ):
      self.assertIn(text, str(raised.exception))

  def test_reducing_needs_it(self):
    with (
      tf.Graph().as_default(),
      mock.patch.dict(sys.modules, {"horovod": None}),
    ):
      x = v1.placeholder(tf.float32, [2])
      with self.assertRaisesRegex(ImportError, "needs Horovod"):
        horovod_aggregation.reduce_gradients([x])
      with self.assertRaisesRegex(ImportError, "needs Horovod"):
        horovod_aggregation.reduce_loss(x)

  def test_is_initialised_once(self):
    horovod = horovod_stand_in.install(self)
    self.assertIs(horovod_aggregation.load_horovod(), horovod)
    horovod_aggregation.load_horovod()
    self.assertEqual(horovod.times_initialised, 1)


class VisibleGpusTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("first", 2, 0, None, "0,1"),
    ("second", 2, 1, None, "2,3"),
    ("one_each", 1, 3, None, "3"),
    ("scheduler", 2, 1, "4, 5,GPU-6a,7", "GPU-6a,7"),
  )
  def test_processes_share_the_machine(self, devices, rank, visible, expected):
    found = horovod_aggregation.visible_gpus(devices, rank, visible)
    self.assertEqual(found, expected)

  @parameterized.named_parameters(
    (
      "too_few",
      (2, 1, "0,1,2"),
      "local rank 1 needs GPUs 2 to 3, but CUDA_VISIBLE_DEVICES='0,1,2' has 3",
    ),
    ("no_device", (0, 1), "num_devices=0 and local_rank=1 do not fit"),
  )
  def test_error(self, arguments, text):
    with self.assertRaisesRegex(ValueError, text):
      horovod_aggregation.visible_gpus(*arguments)


class ReduceTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.horovod = horovod_stand_in.install(self)

  @parameterized.named_parameters(("mean", "mean", 1), ("sum", "sum", 2))
  def test_kinds_values_and_devices_are_kept(self, method, factor):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2, 3])
      unknown = v1.placeholder(tf.float64, [None])
      with tf.device("/cpu:1"):
        dense = x * 2
        wide = unknown * 2
      with tf.device("/cpu:2"):
        rows = tf.IndexedSlices(x * 3, tf.constant([4, 1]), tf.constant([9, 3]))
      with tf.device("/cpu:0"), v1.name_scope("elsewhere"):
        found = horovod_aggregation.reduce_gradients(
          [dense, None, rows, wide], method
        )
      self.assertIsNone(found[1])
      self.assertEqual(found[0].shape, [2, 3])
      self.assertEndsWith(found[0].device, "CPU:1")
      self.assertEndsWith(found[3].device, "CPU:1")
      self.assertIsInstance(found[2], tf.IndexedSlices)
      self.assertEqual(found[2].values.shape.as_list(), [None, 3])
      self.assertEndsWith(found[2].values.device, "CPU:2")
      self.assertEndsWith(found[2].indices.device, "CPU:2")
      with v1.Session(config=HARD) as session:
        ones = np.ones([2, 3])
        dense, rows, wide = session.run(
          [found[0], found[2], found[3]], {x: ones, unknown: np.ones(4)}
        )
    np.testing.assert_array_equal(dense, 2 * factor * ones)
    np.testing.assert_array_equal(wide, [2 * factor] * 4)
    # The rows of two processes.
    np.testing.assert_array_equal(rows.indices, [4, 1, 4, 1])
    np.testing.assert_array_equal(rows.values, np.full([4, 3], 1.5 * factor))

  def test_loss_is_reduced(self):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [])
      with tf.device("/cpu:1"):
        loss = x + 1
      found = horovod_aggregation.reduce_loss(loss, "sum")
      self.assertEqual(found.shape, [])
      self.assertEndsWith(found.device, "CPU:1")
      with v1.Session(config=HARD) as session:
        self.assertEqual(session.run(found, {x: 2}), 6)

  def test_names_do_not_depend_on_what_else_a_process_builds(self):
    def names(prefix):
      with tf.Graph().as_default() as graph, v1.name_scope(prefix):
        for count in range(len(prefix)):
          tf.constant(count)
        x = v1.placeholder(tf.float32, [2], name=prefix)
        horovod_aggregation.reduce_gradients([x * 1, None, x * 2])
        horovod_aggregation.reduce_gradients([x * 3])
        return [x.name for x in graph.get_operations() if x.type == "Cumsum"]

    self.assertEqual(names("a"), names("other"))
    self.assertEqual(
      names("a"),
      ["horovod_gradients/0", "horovod_gradients/2", "horovod_gradients_1/0"],
    )

  def test_collectives_of_constants_run_in_the_step(self):
    """TensorFlow 2.15 and 2.21 compute them while they prepare a graph."""
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [])
      with tf.device("/cpu:1"):
        constants = [tf.ones(shape) * 3 for shape in ([2], [2], [2, 2], [])]
        sparse = tf.IndexedSlices(
          tf.ones([2, 3]), tf.constant([1, 2]), tf.constant([9, 3])
        )
      found = horovod_aggregation.reduce_gradients([*constants, sparse])
      dense = [gradient * x for gradient in found[:-1]]
      kept = [found[-1].values * x, found[-1].indices * tf.cast(x, tf.int32)]
      metadata = v1.RunMetadata()
      with v1.Session(config=HARD) as session:
        session.run(
          [dense, kept],
          {x: 1},
          options=v1.RunOptions(output_partition_graphs=True),
          run_metadata=metadata,
        )
    ran = [
      node.name
      for graph in metadata.partition_graphs
      for node in graph.node
      if node.op in ("Cumsum", "ConcatV2")
    ]
    self.assertContainsSubset(
      [
        *(f"horovod_gradients/{index}" for index in range(4)),
        "horovod_gradients/4_values",
        "horovod_gradients/4_indices",
      ],
      ran,
    )

  def test_errors(self):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.bfloat16, [2])
      with self.assertRaisesRegex(
        ValueError,
        "gradient 1 has the dtype bfloat16, .* use one of float16, float32",
      ):
        horovod_aggregation.reduce_gradients([None, x])
      with self.assertRaisesRegex(ValueError, "the loss has the dtype bfloat"):
        horovod_aggregation.reduce_loss(x)
      with self.assertRaisesRegex(
        ValueError, "method='max' is unknown; use one of mean, sum"
      ):
        horovod_aggregation.reduce_gradients([], "max")


class BroadcastTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.horovod = horovod_stand_in.install(self)

  def test_variables_are_set_on_their_devices(self):
    with tf.Graph().as_default() as graph:
      step = v1.train.create_global_step()
      with tf.device("/cpu:1"):
        resource = v1.get_variable("a", [2], initializer=tf.ones_initializer())
      with tf.device("/cpu:2"):
        reference = v1.get_variable(
          "b", [2], initializer=tf.ones_initializer(), use_resource=False
        )
      hook = horovod_aggregation.BroadcastHook()
      variables = [step, resource, reference]
      with v1.train.MonitoredSession(
        v1.train.ChiefSessionCreator(config=HARD), hooks=[hook]
      ) as session:
        found = session.run(variables)
      for name, device in (("a", "CPU:1"), ("b", "CPU:2")):
        op = graph.get_operation_by_name(f"horovod_broadcast/{name}")
        self.assertEndsWith(op.device, device)
    for value, expected in zip(found, [5, [6, 6], [6, 6]], strict=True):
      np.testing.assert_array_equal(value, expected)

  def test_other_models_are_an_error(self):
    self.horovod.other_model = 1
    with tf.Graph().as_default():
      v1.get_variable("a", [2])
      with self.assertRaisesRegex(
        RuntimeError, r"gradients of processes \[1\] are not those of process 0"
      ):
        v1.train.MonitoredSession(hooks=[horovod_aggregation.BroadcastHook()])

  def test_dtypes_that_cannot_be_sent_are_an_error(self):
    with tf.Graph().as_default():
      v1.get_variable("a", [2], tf.bfloat16)
      with self.assertRaisesRegex(
        ValueError, "variable a has the dtype bfloat16, which Horovod"
      ):
        horovod_aggregation.BroadcastHook().begin()

  def test_comes_before_hooks_that_read_the_global_step(self):
    """An Estimator's `steps` count from the global step of process 0."""
    begun_at = []

    class AfterCreation(tf.estimator.SessionRunHook):
      def after_create_session(self, session, coord):
        del coord
        begun_at.append(session.run(v1.train.get_global_step(session.graph)))

    def model_fn(features, labels, mode):
      del features, labels
      weight = v1.get_variable("weight", [])
      step = v1.train.get_global_step()
      spec = tf.estimator.EstimatorSpec(
        mode,
        loss=weight + 0,
        train_op=v1.assign_add(step, 1),
        training_chief_hooks=[v1.train.StepCounterHook(), AfterCreation()],
      )
      spec = horovod_aggregation.with_broadcast(spec)
      self.assertLen(spec.training_chief_hooks, 3)
      return spec

    estimator = tf.estimator.Estimator(
      model_fn, self.create_tempdir().full_path
    )
    data = tf.data.Dataset.from_tensors
    estimator.train(lambda: data(([0.0], [0.0])).repeat(), steps=3)
    # The stand-in's process 0 is 5 steps ahead.
    self.assertEqual(begun_at, [5])
    self.assertEqual(estimator.get_variable_value("global_step"), 8)


if __name__ == "__main__":
  absltest.main()
