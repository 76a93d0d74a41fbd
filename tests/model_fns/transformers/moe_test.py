"""Experts on the devices of a mesh are those of one device."""

import functools

import estimator_mp
import model_fns
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import programs
from tests.model_fns.transformers import texts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# Half of the room that all tokens need: many are dropped.
_STEPS = 2 if tiers.FAST else 20
_MAKE = functools.partial(
  model_fns.moe,
  **texts.SIZES,
  num_experts=4,
  capacity_factor=0.5,
  balance_weight=0.1,
)
_BATCH = ({"tokens": texts.TOKENS}, texts.NEXT)
_BY_RULE = (("experts/(up|down)/", 0),)


def _larger(values):
  """Returns variables with gates that decide more than they do at first."""
  return {
    name: 40.0 * value if name.endswith("/gate") else value
    for name, value in values.items()
  }


def _batches():
  return [programs.examples(_BATCH, i % 4, i % 4 + 16) for i in range(_STEPS)]


@functools.cache
def _plain(experts_per_token):
  """Returns the variables at first, and twenty steps on one device."""
  model_fn = _MAKE(experts_per_token=experts_per_token)
  program = programs.Program(model_fn, None, _BATCH)
  start = _larger(program.variables())
  program.load(start)
  return start, [program.step(batch) for batch in _batches()]


class EqualityTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("switch_stages", 1, "stage:2", {"num_micro_batches": 4}),
        ("switch_rule", 1, "model:2", {"split": _BY_RULE}),
        ("switch_model", 1, "model:2", {}),
        ("switch_data", 1, "data:2", {"num_micro_batches": 2}),
        ("gshard_rule", 2, "model:2", {"split": _BY_RULE}),
        (
          "gshard_both",
          2,
          "stage:2,model:2",
          {"num_micro_batches": 4, "recompute": "always"},
        ),
      ]
    )
  )
  def test_twenty_steps(self, experts_per_token, mesh, fields):
    config = estimator_mp.ShardingConfig(mesh, **fields)
    model_fn = _MAKE(experts_per_token=experts_per_token)
    sharded = programs.Program(model_fn, config, _BATCH)
    start, plain = _plain(experts_per_token)
    sharded.load(start)
    steps = [sharded.step(batch) for batch in _batches()]
    programs.assert_same_gradients(
      self, steps[0].gradients, plain[0].gradients, (), rtol=1e-5
    )
    np.testing.assert_allclose(
      [step.loss for step in steps], [step.loss for step in plain], rtol=1e-5
    )
    if "split" in fields:
      self._assert_experts_are_apart(sharded.graph)

  def _assert_experts_are_apart(self, graph):
    """Each device has some experts, and gets their slots alone."""
    self._assert_split_by_experts(graph)
    splits = sharding_plan.get_plan(graph).splits
    sent = [
      (x.kind, x.type)
      for x in splits.sent
      if "/experts/" in x.op and x.forward_bytes
    ]
    self.assertIn(("slice", "Einsum"), sent)
    self.assertNotIn(("broadcast", "Einsum"), sent)

  def _assert_split_by_experts(self, graph):
    splits = sharding_plan.get_plan(graph).splits
    axes = {
      x.name.rpartition("experts/")[2]: x.axis
      for x in splits.variables
      if "/experts/" in x.name and "Adam" not in x.name
    }
    names = ("up/kernel", "up/bias", "down/kernel", "down/bias")
    self.assertEqual(axes, dict.fromkeys(names, 0))

  @tiers.slow
  def test_auto_is_by_experts_where_that_sends_less(self):
    """In the model of docs/moe.md, whose slots are more than its tokens."""
    model_fn = model_fns.moe(
      num_layers=2,
      hidden_size=32,
      num_heads=4,
      sequence_length=64,
      vocabulary_size=256,
      num_experts=8,
      experts_per_token=2,
    )
    tokens = np.zeros([2, 64], np.int32)
    config = estimator_mp.ShardingConfig("model:2")
    program = programs.Program(model_fn, config, ({"tokens": tokens}, tokens))
    self._assert_split_by_experts(program.graph)

  @tiers.slow
  def test_evaluation_and_predictions(self):
    config = estimator_mp.ShardingConfig("stage:2,model:2")
    metrics = texts.assert_same_serving(
      self, _MAKE, config, _BATCH, sample_length=2, sample_seed=4
    )
    self.assertBetween(metrics["dropped_tokens"], 0.4, 0.8)


class ExpertsTest(parameterized.TestCase):
  def _graph(self, mode, features, labels=None, **options):
    model_fn = model_fns.moe(**texts.SIZES, num_experts=4, **options)
    v1.set_random_seed(3)
    v1.train.get_or_create_global_step()
    features = {name: tf.constant(x) for name, x in features.items()}
    return model_fn(features, labels, mode)

  def test_one_of_two_layers_has_experts_or_all(self):
    for every, layers in ((1, {"layer_0", "layer_1"}), (2, {"layer_1"})):
      with tf.Graph().as_default():
        self._graph("infer", _BATCH[0], experts_every=every)
        gates = [
          v.op.name
          for v in v1.trainable_variables()
          if v.op.name.endswith("/gate")
        ]
      self.assertEqual({name.split("/")[1] for name in gates}, layers)

  def test_without_room_layers_add_nothing_and_say_so(self):
    """A summary in training; the fraction of tokens that had no room."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
      self._graph(
        "train", _BATCH[0], tf.constant(_BATCH[1]), capacity_factor=0.01
      )
      (shown,) = graph.get_collection("summaries")
      session.run(v1.global_variables_initializer())
      summary = v1.Summary.FromString(session.run(shown))
    (value,) = summary.value
    self.assertEqual(value.tag, "dropped_tokens")
    # One token of six for each expert that some token chooses.
    self.assertBetween(value.simple_value, 2 / 6, 5 / 6)

  @tiers.slow
  def test_predictions_do_not_depend_on_how_texts_are_cut_up(self):
    """In prediction experts have room for all, whatever is beside a text."""
    with tf.Graph().as_default(), v1.Session() as session:
      text = v1.placeholder(tf.int32, [None, None])
      length = v1.placeholder(tf.int32, [None])
      v1.set_random_seed(3)
      model_fn = _MAKE(experts_per_token=2, sample_length=4, temperature=0.0)
      spec = model_fn({"tokens": text, "length": length}, None, "infer")
      session.run(v1.global_variables_initializer())
      for gate in v1.trainable_variables():
        gate.load(10.0 * session.run(gate), session)

      def predict(tokens, lengths):
        return session.run(spec.predictions, {text: tokens, length: lengths})

      together = predict(texts.TOKENS, texts.LENGTHS)
      for row, size in enumerate(texts.LENGTHS):
        known = list(texts.TOKENS[row, :size])
        for token in together["tokens"][row]:
          alone = predict([known], [len(known)])
          self.assertEqual(alone["tokens"][0, 0], token)
          known.append(token)

  def test_balance_loss_is_added_times_its_weight(self):
    def gate_loss(weight):
      with tf.Graph().as_default(), v1.Session() as session:
        spec = self._graph(
          "eval", _BATCH[0], tf.constant(_BATCH[1]), balance_weight=weight
        )
        session.run(v1.global_variables_initializer())
        return session.run(spec.loss)

    without, some, twice = map(gate_loss, (0.0, 0.5, 1.0))
    self.assertGreater(some, without + 0.4)  # It is at least 1 times weight.
    np.testing.assert_allclose(twice - some, some - without, rtol=1e-4)

  @parameterized.parameters(
    ({"experts_every": 3}, "experts_every=3 gives none of 2 layers experts"),
    ({"num_experts": 1}, "num_experts=1 is too few; use at least 2"),
  )
  def test_says_what_does_not_fit(self, options, message):
    with self.assertRaisesRegex(ValueError, message):
      model_fns.moe(**(texts.SIZES | {"num_experts": 4} | options))


if __name__ == "__main__":
  absltest.main()
