"""Where ops go on GPUs, told without one.

A session with hard placement runs nothing that was put where it cannot run. So
no op may be on a GPU that has no kernel for it there, and what belongs together
has to be in one place: as TensorFlow's own, soft placement would have it.
"""

import contextlib
import os
from unittest import mock

import estimator_mp
from compat.private import op_registry
from estimator_mp import devices
from estimator_mp.graph import device_assignment
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, data, networks, registry
from tests.gpu import kernels, placer

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_GPUS = ("/device:GPU:0", "/device:GPU:1")
_HOST = "/device:CPU:0"


class _GraphIsMadeError(Exception):
  """Ends training where it would begin."""


class _Case(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(kernels.as_if_for_gpus())
    self.enter_context(mock.patch.object(devices, "num_local_gpus", lambda: 8))

  def training_graph(self, model, **options):
    """Returns the graph of which a sharded Estimator would make a session."""
    graphs = []

    def stop(*args, **kwargs):
      graphs.append(v1.get_default_graph())
      raise _GraphIsMadeError

    config = estimator_mp.ShardingConfig(placement=model.rules, **options)
    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      self.create_tempdir().full_path,
    )
    with (
      mock.patch.object(v1.train.SessionManager, "prepare_session", stop),
      contextlib.suppress(_GraphIsMadeError),
    ):
      estimator.train(data.input_fn, steps=1)
    return graphs[0]


def _is_on_gpu(op):
  return "GPU" in op.device


class ZooTest(_Case):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", "canned", {"mesh": "stage:3"}),
        ("slices", "lstm", {"mesh": "stage:3", "num_micro_batches": 2}),
        ("replicas", "deepfm", {"mesh": "data:2,stage:3"}),
        ("model_axis", "cnn", {"mesh": "stage:3,model:2"}),
        (
          "recomputed",
          "mlp_keras_adam",
          {
            "mesh": "stage:3",
            "num_micro_batches": 3,
            "schedule": "gpipe",
            "recompute": "always",
          },
        ),
        (
          "zero",
          "mlp_adam",
          {"mesh": "data:2,stage:3", "optimizer_state": "sharded"},
        ),
      ]
    )
  )
  def test_a_session_would_take_it(self, name, options):
    graph = self.training_graph(catalogue.NETWORKS[name], **options)
    self.assertEmpty(placer.refusals(graph))
    # Nothing that is trained has stayed behind, nor a slot of it.
    for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES):
      self.assertNotIn("CPU", variable.op.device, variable.op.name)
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    self.assertTrue(products)
    self.assertTrue(all(map(_is_on_gpu, products)))


class PrefetchedTest(_Case):
  def test_batches_wait_on_the_gpus_that_read_them(self):
    """But for strings, which no GPU has in its memory."""
    graph = self.training_graph(
      _model(_text),
      mesh="data:2,stage:2",
      num_micro_batches=2,
      prefetch_inputs=True,
    )
    self.assertEmpty(placer.refusals(graph))
    by_type = {
      name: {op.device: op for op in graph.get_operations() if op.type == name}
      for name in ("MapStage", "MapUnstage")
    }
    self.assertCountEqual(by_type["MapStage"], by_type["MapUnstage"])
    dtypes = {
      device: {x.dtype for x in op.outputs}
      for device, op in by_type["MapUnstage"].items()
    }
    # The first stage of each replica reads features, and the last one labels.
    for gpu in range(4):
      self.assertNotEmpty(dtypes[f"/device:GPU:{gpu}"])
    for device, of_device in dtypes.items():
      self.assertEqual(tf.string in of_device, device == _HOST)


def _net(features, middle):
  net = v1.layers.dense(features["x"], 8, tf.nn.relu, name="a")
  return v1.layers.dense(middle(net, features), 1, name="b")


def _model(middle, optimizer=None, use_resource=True):
  """A model of two stages, with something between its layers."""

  def model_fn(features, labels, mode):
    with v1.variable_scope("", use_resource=use_resource):
      logits = _net(features, middle)
    made = (optimizer or (lambda: v1.train.GradientDescentOptimizer(0.1)))()
    return networks.spec(mode, logits, labels, networks.minimize(made))

  return registry.Model(model_fn, (("^a/", 0), ("", 1)))


def _integer(name, shape):
  zeros = v1.zeros_initializer()
  return v1.get_variable(name, shape, tf.int32, zeros, trainable=False)


def _table(net, features):
  table = v1.get_variable("table", [50, 8])
  return net + tf.reduce_sum(tf.nn.embedding_lookup(table, features["ids"]), 1)


def _text(net, features):
  rows = tf.strings.to_hash_bucket_fast(tf.reshape(features["city"], [-1]), 8)
  return net + tf.one_hot(rows, 8)


def _counter(net, features):
  del features
  with tf.control_dependencies([v1.assign_add(_integer("steps", []), 1)]):
    return tf.identity(net)


def _integer_table(net, features):
  words = tf.gather(_integer("words", [50]), features["ids"])
  return _table(net, features | {"ids": words})


def _branch(net, features):
  del features
  warmed_up = _integer("steps", []) > 3
  return tf.cond(warmed_up, lambda: net * 2.0, lambda: net)


def _printing_branch(net, features):
  del features
  total = tf.reduce_sum(net)
  return tf.cond(total > 3.0, lambda: v1.Print(net, [total]), lambda: net)


def _python(net, features):
  del features
  made = tf.numpy_function(lambda x: x * 2, [net], tf.float32)
  made.set_shape(net.shape)
  return net + tf.stop_gradient(made)


def _checked(net, features):
  with tf.control_dependencies([v1.assert_less(features["ids"], 100)]):
    return tf.identity(net)


def _own_rows(net, features):
  """BERT's gather, which each slice checks."""
  rows = tf.reshape(v1.layers.dense(net, 32, name="a_1"), [-1, 8])
  begins = tf.reshape(tf.range(0, tf.shape(net)[0]) * 4, [-1, 1])
  where = tf.cast(features["ids"][:, :1] % 4, tf.int32)
  return tf.gather(rows, tf.reshape(where + begins, [-1]))


def _words(net, features):
  numbers = tf.strings.to_hash_bucket_fast(features["city"], 50)
  return _table(net, features | {"ids": numbers})


class NoKernelTest(_Case):
  """What has no kernel for GPUs, and what has to be with it."""

  @parameterized.named_parameters(
    (f"{name}_{kind}", middle, kind == "resource", hosted)
    for name, middle, hosted in (
      ("counter", _counter, {"steps"}),
      ("integer_table", _integer_table, {"words"}),
      ("branch", _branch, {"steps"}),
      ("printing_branch", _printing_branch, set()),
      ("python", _python, set()),
      ("checked", _checked, set()),
      ("words", _words, set()),
    )
    for kind in tiers.sample(["reference", "resource"])
  )
  def test_is_on_the_host(self, middle, use_resource, hosted):
    model = _model(middle, use_resource=use_resource)
    self._check(model, hosted)

  @parameterized.named_parameters(
    (
      "update_of_rows",
      lambda: v1.train.RMSPropOptimizer(0.1),
      {"table", "table/RMSProp", "table/RMSProp_1"},
    ),
    (
      "any_update",
      lambda: v1.train.ProximalGradientDescentOptimizer(0.1),
      {"table", "a/kernel", "a/bias", "b/kernel", "b/bias"},
    ),
    ("all_updates_have_one", lambda: v1.train.AdamOptimizer(0.1), set()),
  )
  def test_a_variable_is_where_its_update_can_run(self, optimizer, hosted):
    """Nobody knows the optimizer when the table is placed."""
    for use_resource in (True, False):
      self._check(_model(_table, optimizer, use_resource), hosted)

  def _check(self, model, hosted):
    graph = self.training_graph(model, mesh="stage:2")
    self.assertEmpty(placer.refusals(graph))
    found = {
      variable.op.name
      for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
      if not _is_on_gpu(variable.op) and variable.op.name != "global_step"
    }
    self.assertEqual(found, hosted)
    for name in hosted:
      self.assertEqual(graph.get_operation_by_name(name).device, _HOST)
    for device in _GPUS:
      kinds = {x.type for x in graph.get_operations() if x.device == device}
      self.assertContainsSubset({"MatMul"}, kinds)

  def test_slices_check_indices(self):
    options = {"mesh": "stage:2", "num_micro_batches": 2}
    graph = self.training_graph(_model(_own_rows), **options)
    self.assertEmpty(placer.refusals(graph))
    types = {op.type for op in graph.get_operations()}
    self.assertIn("Assert", types)
    gathers = [
      x
      for x in graph.get_operations()
      if x.type == "GatherV2" and x.outputs[0].dtype == tf.float32
    ]
    self.assertNotEmpty(gathers)
    self.assertTrue(all(map(_is_on_gpu, gathers)), gathers)

  def test_of_a_mesh_without_gpus_nothing_moves(self):
    mesh = {"mesh": "stage:2", "devices": ("/cpu:0", "/cpu:1")}
    graph = self.training_graph(_model(_counter), **mesh)
    self.assertEqual(
      graph.get_operation_by_name("steps").device, "/device:CPU:1"
    )


class PlacerTest(_Case):
  """The test of the others: it finds what TensorFlow would refuse."""

  def test_an_op_without_a_kernel(self):
    with tf.Graph().as_default() as graph, v1.device(_GPUS[0]):
      v1.Print(tf.constant(1.0, name="x"), [], name="printed")
    self.assertEqual(
      placer.refusals(graph), [f"printed: no Print on {_GPUS[0]}"]
    )

  def test_one_in_a_branch(self):
    with tf.Graph().as_default() as graph, v1.device(_GPUS[0]):
      x = tf.constant(1.0)
    with graph.as_default():
      made = tf.cond(x > 0.0, lambda: v1.Print(x, [x]), lambda: x)
      branch = made.op.inputs[0].op if made.op.type == "Identity" else made.op
    self.assertEqual(placer.refusals(graph), [])
    device_assignment.assign({branch: 0}, [_GPUS[0]])
    self.assertEqual(branch.device, _HOST)

  def test_a_variable_and_its_reader_on_two_devices(self):
    with tf.Graph().as_default() as graph:
      with v1.device(_GPUS[0]):
        v = v1.get_variable("v", [], use_resource=True)
      with v1.device(_GPUS[1]):
        v1.raw_ops.ReadVariableOp(resource=v.handle, dtype=tf.float32)
    self.assertEqual(placer.refusals(graph), [f"v: on {[*_GPUS]}"])


class KernelsTest(absltest.TestCase):
  def test_variables_and_shapes_have_a_kernel_for_any_device(self):
    """Registered for "DEFAULT", and not for GPUs, since TensorFlow 2.5."""
    with tf.Graph().as_default(), kernels.as_if_for_gpus():
      v = v1.get_variable("v", [2], use_resource=True)
      for op in (v.op, v.value().op, tf.no_op(), tf.constant([1, 2]).op):
        self.assertTrue(op_registry.has_kernel(op.node_def, "GPU"), op.type)
      integers = v1.get_variable("i", [2], tf.int32, use_resource=True)
      self.assertFalse(op_registry.has_kernel(integers.op.node_def, "GPU"))

  def test_the_record_is_what_is_registered(self):
    if not op_registry._kernels("MatMul", "GPU"):
      self.skipTest("this TensorFlow is not for GPUs: it has no kernels")
    path = os.path.join(os.path.dirname(__file__), "kernels_221.txt")
    with open(path, encoding="utf-8") as file:
      self.assertEqual(file.read().splitlines(), [*kernels.registered()])


if __name__ == "__main__":
  absltest.main()
