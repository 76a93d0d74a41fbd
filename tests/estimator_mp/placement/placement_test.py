"""Where shard_model_fn puts things: marks, rules, the cut."""

import os

import estimator_mp
from estimator_mp.config import placement_file
from estimator_mp.graph import op_types
from estimator_mp.placement import transfers
from tests import tiers
from tests.estimator_mp import parts, runs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
PREDICT = tf.estimator.ModeKeys.PREDICT


def build(model_fn, config, params=None, mode=TRAIN, model_dir=None):
  """Calls a sharded model_fn in a new graph; returns spec and graph."""
  sharded = estimator_mp.shard_model_fn(model_fn, config)
  kwargs = {} if params is None else {"params": params}
  with tf.Graph().as_default() as graph:
    v1.train.create_global_step()
    features, labels = v1.data.make_one_shot_iterator(
      data.input_fn()
    ).get_next()
    run_config = estimator_mp.run_config(config, model_dir=model_dir)
    if mode == tf.estimator.ModeKeys.PREDICT:
      labels = None
    spec = sharded(
      features=features, labels=labels, mode=mode, config=run_config, **kwargs
    )
  return spec, graph


def devices_of_variables(graph):
  return {
    op.name: op.device[-1]
    for op in op_types.variables_of(graph.get_operations())
    if op.device
  }


class MarksTest(absltest.TestCase):
  def test_marks_inside_of_model_fn_count(self):
    def model_fn(features, labels, mode):
      with estimator_mp.stage(1):
        net = v1.layers.dense(features["x"], 4, name="a")
      with tf.device("/cpu:2"):
        net = v1.layers.dense(net, 4, name="b")
      with estimator_mp.stage(0):
        net = v1.layers.dense(net, 1, name="c")
      loss = tf.reduce_mean(tf.square(net))
      return parts.spec(mode, loss)

    spec, graph = build(model_fn, estimator_mp.ShardingConfig("stage:3"))
    found = devices_of_variables(graph)
    self.assertEqual(
      [found[f"{name}/kernel"] for name in "abc"], ["1", "2", "0"]
    )
    self.assertEqual(spec.loss.op.device, "/device:CPU:0")

  def test_what_has_no_mark_follows_what_it_reads(self):
    """The latest of its inputs; what reads nothing its earliest reader."""

    def model_fn(features, labels, mode):
      with estimator_mp.stage(1):
        early = v1.layers.dense(features["x"], 4, name="a")
      with estimator_mp.stage(2):
        late = v1.layers.dense(early, 4, name="b")
      ones = tf.ones([4], name="ones")
      for name, net in (("of_both", early + late), ("of_early", early * ones)):
        net = tf.tanh(net, name=name)
      loss = tf.reduce_mean(late * ones)
      return parts.spec(mode, loss)

    _, graph = build(model_fn, estimator_mp.ShardingConfig("stage:3"))
    self.assertEqual(
      [
        graph.get_operation_by_name(name).device[-1]
        for name in ("of_both", "of_early", "ones")
      ],
      ["2", "1", "1"],
    )

  def test_a_model_fn_knows_the_mesh_that_it_is_sharded_over(self):
    seen = []

    def model_fn(features, labels, mode):
      seen.append(estimator_mp.get_mesh())
      net = v1.layers.dense(features["x"], 4)
      loss = tf.reduce_mean(tf.square(v1.layers.dense(net, 1)))
      return parts.spec(mode, loss)

    config = estimator_mp.ShardingConfig("stage:2")
    build(model_fn, config)
    self.assertEqual(seen, [config.create_mesh()])
    self.assertIsNone(estimator_mp.get_mesh())

  def test_a_stage_without_a_mesh_is_an_error(self):
    with self.assertRaisesRegex(RuntimeError, r"stage\(1\) has no mesh here"):
      estimator_mp.stage(1)


class AutomaticTest(absltest.TestCase):
  def test_a_loop_is_not_cut(self):
    _, graph = build(
      catalogue.NETWORKS["lstm"].model_fn,
      estimator_mp.ShardingConfig("stage:4"),
    )
    found = devices_of_variables(graph)
    for i in range(2):
      cell = f"rnn_{i}/cell_{i}"
      self.assertEqual(found[f"{cell}/kernel"], found[f"{cell}/bias"])


def _penalized(norm, add_penalty=True):
  """Returns a model_fn of a table and layers, with a penalty on weights."""

  def model_fn(features, labels, mode):
    table = v1.get_variable("table", [2000, 16])
    net = tf.gather(table, features["ids"][:, 0])
    for i in range(5):
      net = v1.layers.dense(net, 16, tf.nn.relu, name=f"d{i}")
    loss = tf.reduce_mean(tf.square(net))
    if add_penalty:
      weights = [v for v in v1.trainable_variables() if "bias" not in v.name]
      loss += 1e-3 * norm([v1.get_variable("only", [3, 3]), *weights])
    return parts.spec(mode, loss)

  return model_fn


_PENALTIES = {
  "l2_loss": lambda weights: tf.add_n([tf.nn.l2_loss(w) for w in weights]),
  "squares": lambda weights: sum(tf.reduce_sum(w * w) for w in weights),
  "norm": lambda weights: sum(tf.norm(w) for w in weights),
  "global_norm": tf.linalg.global_norm,
  "mean": lambda weights: sum(tf.reduce_mean(tf.abs(w), 0)[0] for w in weights),
}


class PenaltyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    [*_PENALTIES.items()][:: 3 if tiers.FAST else 1]
  )
  def test_a_penalty_moves_no_weights_and_gets_scalars(self, norm):
    config = estimator_mp.ShardingConfig("stage:3")
    _, plain = build(_penalized(norm, add_penalty=False), config)
    _, graph = build(_penalized(norm), config)
    found = devices_of_variables(graph)
    self.assertEqual(found.pop("only"), "2")
    self.assertEqual(found, devices_of_variables(plain))
    self.assertEqual(found["table"], "0")
    sent = transfers.planned_transfers(graph.get_operations())
    reads = [t for t in sent if t.num_bytes > 4 * 32 * 16]
    self.assertEmpty(reads)

  def test_a_cut_that_fits_is_not_refused(self):
    """It said that the model asks for gradients part by part."""
    limit = 600_000  # The table takes 4 x 128 kB.
    config = estimator_mp.ShardingConfig("stage:3", memory_limit=limit)
    _, graph = build(_penalized(_PENALTIES["l2_loss"]), config)
    self.assertEqual(devices_of_variables(graph)["table"], "0")

  def test_a_variable_goes_where_it_costs_little_only_if_it_fits(self):
    def model_fn(features, labels, mode):
      table = v1.get_variable("table", [2000, 16])
      net = tf.gather(table, features["ids"][:, 0])
      for i in range(6):
        net = v1.layers.dense(net, 200 if i < 5 else 16, name=f"d{i}")
      loss = tf.reduce_mean(tf.matmul(net, table, transpose_b=True))
      return parts.spec(mode, loss)

    found = [
      devices_of_variables(
        build(
          model_fn, estimator_mp.ShardingConfig("stage:2", memory_limit=limit)
        )[1]
      )["table"]
      for limit in (2_400_000, 2_200_000)
    ]
    self.assertEqual(found, ["1", "0"])

  def test_no_stage_is_left_without_weights(self):
    """The table alone is a stage, and its values are read on the last one."""

    def model_fn(features, labels, mode):
      table = v1.get_variable("table", [50, 16])
      net = tf.gather(table, features["ids"][:, 0])
      net = v1.layers.dense(net, 16, tf.nn.relu, name="d")
      loss = tf.reduce_mean(tf.matmul(net, table, transpose_b=True))
      return parts.spec(mode, loss)

    _, graph = build(model_fn, estimator_mp.ShardingConfig("stage:2"))
    found = devices_of_variables(graph)
    self.assertEqual((found["table"], found["d/kernel"]), ("0", "1"))


def _layers(net, scope, count):
  for i in range(count):
    with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
      net = v1.layers.dense(net, 64, tf.nn.relu, name=f"d{i}")
  return net


def _siamese(features, labels, mode):
  """Two towers of the same twelve layers, and three layers on both."""
  x = features["x"]
  towers = [_layers(part, "tower", 12) for part in (x[:, :5], x[:, 5:])]
  net = _layers(tf.concat(towers, 1), "head", 2)
  net = v1.layers.dense(net, 1)
  loss = tf.reduce_mean(tf.square(net - tf.one_hot(labels, 2)[:, 0, :1]))
  loss += _PENALTIES["l2_loss"](v1.trainable_variables()) * 1e-3
  return parts.spec(mode, loss)


def _adversarial(features, labels, mode):
  """Eight layers of a critic look at features, and at what six others make."""
  made = _layers(features["x"], "generator", 6)
  real, fake = (
    _layers(net, "critic", 8)
    for net in (tf.tile(features["x"], [1, 7])[:, :64], made)
  )
  loss = tf.reduce_mean(tf.square(real - 1.0)) + tf.reduce_mean(fake * fake)
  return parts.spec(mode, loss)


class TowersTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        # Cut in the order in which ops are made, 12 to 24 weights were sent.
        ("siamese_2", _siamese, 2, 27, 4),
        ("siamese_3", _siamese, 3, 27, 8),
        # The critic's layers are as far from the end, not from the beginning.
        ("adversarial_2", _adversarial, 2, 22, 4),
        ("adversarial_3", _adversarial, 3, 22, 6),
      ]
    )
  )
  def test_towers_that_share_weights_are_cut_side_by_side(
    self, model_fn, num_stages, num_uses, num_sent
  ):
    config = estimator_mp.ShardingConfig(f"stage:{num_stages}")
    _, graph = build(model_fn, config)
    devices = [
      op.device[-1]
      for op in graph.get_operations()
      if op.type == "MatMul" and not op.name.startswith("gradients")
    ]
    self.assertLen(devices, num_uses)
    most = max(map(devices.count, devices))
    self.assertLess(most, num_uses / num_stages + 4)
    sent = transfers.planned_transfers(graph.get_operations())
    self.assertEmpty([t for t in sent if "ReadVariableOp" in t.tensor])
    # The towers' activations with their gradients, and small numbers.
    self.assertLen([t for t in sent if t.num_bytes > 4 * 32], num_sent)


class TransfersTest(absltest.TestCase):
  def _plan(self, name, mesh):
    model = catalogue.NETWORKS[name]
    config = estimator_mp.ShardingConfig(mesh)
    _, graph = build(model.model_fn, config, model.params)
    return transfers.planned_transfers(graph.get_operations())

  @tiers.slow
  def test_a_small_transformer_sends_far_less_than_a_naive_wrapper(self):
    """A device function around each variable needs 450 sends a step."""
    self.assertLess(len(self._plan("transformer", "stage:4")), 60)


_JOINED = (
  "the placement has variable 'net/a/kernel' on stage 0 and 'net/c/bias' on "
  "stage 2, but an op of this graph (a loop, a condition or a function) works "
  "on both, so they share a device"
)


def decoder(features, labels, mode):
  del labels
  logits = networks.net(features["x"])
  first, *_, last = v1.trainable_variables()
  if mode == PREDICT:
    _, logits = tf.while_loop(
      lambda i, _: i < 2,
      lambda i, net: (i + 1, net + tf.reduce_sum(first) * last),
      [0, logits],
    )
  loss = tf.reduce_mean(logits)
  train_op = parts.descend(loss) if mode == TRAIN else None
  return tf.estimator.EstimatorSpec(mode, logits, loss, train_op)


class SavedPlacementTest(absltest.TestCase):
  def test_evaluation_uses_the_placement_of_training(self):
    folder = self.create_tempdir().full_path
    config = estimator_mp.ShardingConfig("stage:3")
    model = catalogue.NETWORKS["cnn"]
    build(model.model_fn, config, model_dir=folder)
    saved = placement_file.load_placement(folder, config.create_mesh())
    _, graph = build(
      model.model_fn,
      config,
      mode=tf.estimator.ModeKeys.PREDICT,
      model_dir=folder,
    )
    trained = {
      name: str(saved.ops[name]) for name in devices_of_variables(graph)
    }
    self.assertEqual(devices_of_variables(graph), trained)
    other = estimator_mp.Mesh.create("stage:2")
    self.assertIsNone(placement_file.load_placement(folder, other))

  def test_a_saved_placement_can_be_given(self):
    folder = self.create_tempdir().full_path
    config = estimator_mp.ShardingConfig("stage:3")
    model = catalogue.NETWORKS["deepfm"]
    _, first = build(model.model_fn, config, model_dir=folder)
    saved = placement_file.load_placement(folder, config.create_mesh())
    _, second = build(
      model.model_fn, estimator_mp.ShardingConfig("stage:3", placement=saved)
    )
    self.assertEqual(devices_of_variables(first), devices_of_variables(second))

  def test_a_restored_value_goes_to_its_variables_device_at_once(self):
    def model_fn(features, labels, mode):
      del labels
      loss = tf.reduce_mean(networks.net(features["x"]))
      v1.train.Saver(v1.trainable_variables())
      return parts.spec(mode, loss)

    _, graph = build(model_fn, estimator_mp.ShardingConfig("stage:3"))
    for op in graph.get_operations():
      if op.type == "AssignVariableOp" and op.name.startswith("save/"):
        for tensor in op.inputs:
          self.assertEqual(tensor.op.device, op.device, op.name)

  def test_savers_and_numbered_names_do_not_move_variables(self):
    """`save/AssignVariableOp_1` is of another variable in evaluation."""

    def model_fn(features, labels, mode):
      del labels
      logits = networks.net(features["x"])
      variables = v1.trainable_variables()
      if mode != TRAIN:
        variables = variables[::-1]
      by_name = {f"{i}": variable for i, variable in enumerate(variables)}
      v1.train.Saver(by_name, sharded=True)
      v1.train.Saver(by_name)
      with tf.device("/cpu:0"):
        v1.train.Saver(by_name)
      for variable in variables:
        v1.assign(variable, tf.zeros(variable.shape))
      loss = tf.reduce_mean(logits)
      train_op = parts.descend(loss) if mode == TRAIN else None
      return tf.estimator.EstimatorSpec(mode, logits, loss, train_op)

    folder = self.create_tempdir().full_path
    config = estimator_mp.ShardingConfig("stage:3")
    _, trained = build(model_fn, config, model_dir=folder)
    devices = devices_of_variables(trained)
    self.assertLen(set(devices.values()), 3)
    for mode in (tf.estimator.ModeKeys.EVAL, PREDICT):
      _, graph = build(model_fn, config, mode=mode, model_dir=folder)
      self.assertEqual(devices_of_variables(graph), devices)
      for op in graph.get_operations():
        if op.type == "ReadVariableOp":
          self.assertEqual(op.device, op.inputs[0].op.device, op.name)
        if op.type in ("SaveV2", "RestoreV2", "MergeV2Checkpoints"):
          self.assertEqual(op.device, "/device:CPU:0", op.name)
        if op.type == "AssignVariableOp":
          self.assertEqual(op.device, op.inputs[0].op.device, op.name)

  def test_variables_that_only_prediction_joins_move_and_it_says_so(self):
    """As where a decoder is a loop in prediction, and none in training."""
    folder = self.create_tempdir().full_path
    config = estimator_mp.ShardingConfig("stage:3")
    build(decoder, config, model_dir=folder)
    with self.assertLogs("tensorflow", "WARNING") as logged:
      _, graph = build(decoder, config, mode=PREDICT, model_dir=folder)
    lines = "\n".join(logged.output)
    self.assertIn(f"To infer, variables move: {_JOINED}", lines)
    devices = devices_of_variables(graph)
    self.assertEqual(devices["net/a/kernel"], devices["net/c/bias"])
    for op in graph.get_operations():  # Initializers are made before.
      for group in op.colocation_groups():
        other = graph.get_operation_by_name(group.decode()[len("loc:@") :])
        self.assertEqual(op.device, other.device, op.name)
    _, trained = build(decoder, config, model_dir=folder)
    given = placement_file.load_placement(folder, config.create_mesh())
    config = estimator_mp.ShardingConfig("stage:3", placement=given)
    _, graph = build(decoder, config)
    self.assertEqual(devices_of_variables(graph), devices_of_variables(trained))
    with self.assertRaisesWithLiteralMatch(
      ValueError, f"{_JOINED}; give one that has both on one stage"
    ):
      build(decoder, config, mode=PREDICT)


class ContinuityTest(absltest.TestCase):
  @tiers.slow
  def test_a_plain_run_in_the_same_parts_gives_the_same_variables(self):
    model = catalogue.NETWORKS["mlp_adam"]
    folder = self.create_tempdir().full_path
    ends = []
    for meshes in ((None, None, None), ("stage:3", "stage:2", None)):
      previous = os.path.join(folder, "start")
      if not ends:
        runs.train(model.model_fn, None, model.params, previous, steps=1)
      for index, mesh in enumerate(meshes):
        config = mesh and estimator_mp.ShardingConfig(mesh)
        model_fn = model.model_fn
        if config:
          model_fn = estimator_mp.shard_model_fn(model_fn, config)
        target = os.path.join(folder, f"{len(ends)}_{index}")
        run = runs.go_on(
          model_fn, config, model.params, previous, target, steps=2
        )
        previous = target
      ends.append(run)
    runs.assert_same_training(self, ends[1], ends[0])


class RulesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("all", "Initializer"),
        ("one", "dense_1/kernel/Initializer"),
        ("some_ops", "/(random_uniform|zeros)"),
      ]
    )
  )
  def test_an_initializer_is_where_its_variable_is(self, expression):
    """TensorFlow colocates them, and printed 121 lines when a rule did not."""
    model = catalogue.NETWORKS["mlp_adam"]
    config = estimator_mp.ShardingConfig(
      "stage:3",
      placement=[(expression, 2), ("^dense/", 0), ("^dense_1/", 1), (".", 2)],
    )
    losses = []
    for model_fn, given in (
      (estimator_mp.shard_model_fn(model.model_fn, config), config),
      (model.model_fn, None),
    ):
      tf.keras.utils.set_random_seed(3)  # Layers draw from Python's.
      folder = self.create_tempdir().full_path
      losses.append(runs.train(model_fn, given, model.params, folder, steps=3))
    np.testing.assert_allclose(*losses, rtol=1e-6)

  def test_the_first_rule_that_matches_counts_and_takes_ops_along(self):
    """Only training needs something for each rule; prediction may have less."""

    def model_fn(features, labels, mode):
      net = v1.layers.dense(features["x"], 4, name="a")
      if mode == TRAIN:
        net += v1.layers.dense(features["x"], 4, name="b")
      return parts.spec(mode, tf.reduce_mean(net), predictions=net)

    rules = [("^a/kernel", 1), ("^b/", 1), (".", 0)]
    config = estimator_mp.ShardingConfig("stage:2", placement=rules)
    _, graph = build(model_fn, config)
    for op in graph.get_operations():
      if op.name.startswith(("a/kernel", "b/")):
        self.assertEqual(op.device[-1], "1", op.name)
      elif op.name in ("a/bias", "a/MatMul", "a/BiasAdd"):
        self.assertEqual(op.device[-1], "0", op.name)
    build(model_fn, config, mode=PREDICT)
    rules.insert(0, ("^c/", 0))
    with self.assertRaisesRegex(ValueError, r"'\^c/', 0. matches no variable"):
      build(model_fn, estimator_mp.ShardingConfig("stage:2", placement=rules))


class WrapperTest(absltest.TestCase):
  @tiers.slow
  def test_a_wrapper_that_keeps_config_to_itself(self):
    """It was a KeyError."""
    model = catalogue.NETWORKS["mlp_adam"]
    config = estimator_mp.ShardingConfig("stage:3", num_micro_batches=5)
    sharded = estimator_mp.shard_model_fn(model.model_fn, config)

    def wrapper(features, labels, mode, params):
      return sharded(features, labels, mode, params)

    expected, found = runs.plain_and_sharded(
      self, model.model_fn, config, model.params, sharded=wrapper
    )
    runs.assert_same_training(self, found, expected, rtol=1e-5)
    runs.assert_same_serving(self, found, expected)


if __name__ == "__main__":
  absltest.main()
