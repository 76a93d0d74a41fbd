"""The first training of a user's program, and what is done instead of it."""

import os
import sys
import traceback
from unittest import mock

from estimator_mp.cli import (
  commands,
  compare_flags,
  first_training,
  plan_flags,
)
from tests import tiers
from tests.estimator_mp.cli import command_runs, user_programs

import tensorflow as tf
from absl.testing import absltest, parameterized

# A TPUEstimator tells both functions the batch size.
TPU_SCRIPT = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
tpu = v1.estimator.tpu


def input_fn(params):
  x = np.random.RandomState(3).rand(32, 4).astype(np.float32)
  data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat()
  return data.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
  assert features.shape[0] == params["batch_size"] == 16
  net = v1.layers.dense(features, 8, tf.tanh, name="first")
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


tpu.TPUEstimator(
  model_fn, config=tpu.RunConfig(), use_tpu=False, train_batch_size=16
).train(input_fn, steps=5)
"""
SHARDED = """
import estimator_mp
import tensorflow as tf

estimator = tf.estimator.Estimator(lambda features, mode: None)
estimator_mp.shard_estimator(estimator, estimator_mp.ShardingConfig("stage:2"))
estimator.train(lambda: None)
"""
# It trains twice, whatever happens.
STUBBORN = """
import tensorflow as tf

for _ in range(2):
  try:
    tf.estimator.Estimator(lambda features, mode: None).train(lambda: 5)
  except BaseException:
    pass
"""


class FirstTrainingTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = user_programs.working_directory(self)
    self.addCleanup(os.chdir, os.getcwd())
    self.enter_context(mock.patch.object(sys, "argv", list(sys.argv)))
    self.enter_context(mock.patch.object(sys, "path", list(sys.path)))

  def write(self, text, name="train.py"):
    (self.folder / name).write_text(text)

  @parameterized.parameters(
    ("train.py", "--units=6"), ("-m", "their_training", "--units=6")
  )
  def test_what_the_program_has_set_up_is_there(self, *words):
    for name in ("train.py", "their_training.py"):
      self.write(user_programs.SCRIPT, name)

    def act(estimator, input_fn):
      with tf.Graph().as_default():
        features, _ = input_fn().element_spec
      return estimator.params, estimator.config.tf_random_seed, features["x"]

    params, seed, spec = first_training.act_at_training(words, act)
    self.assertEqual((params, seed), ({"units": 6}, 7))
    self.assertEqual(spec, tf.TensorSpec([None, 4], tf.float32))
    self.assertNotIn("intercepted", tf.estimator.Estimator.train.__name__)

  def test_only_the_first_training_counts(self):
    self.write(STUBBORN)
    seen = []
    first_training.act_at_training(
      ["train.py"], lambda estimator, input_fn: seen.append(input_fn())
    )
    self.assertEqual(seen, [5])

  def test_an_error_of_what_is_done_is_not_the_program_s(self):
    self.write(STUBBORN)
    with self.assertRaises(ZeroDivisionError):
      first_training.act_at_training(["train.py"], lambda *_: 1 / 0)

  def test_an_error_of_the_program_is_its_own(self):
    self.write("def f():\n  raise ValueError('theirs')\n\n\nf()\n")
    with self.assertRaisesRegex(ValueError, "^theirs$"):
      try:
        compare_flags.COMMAND.main(["compare", "--", "train.py"])
      except ValueError as error:
        (frame,) = traceback.extract_tb(error.__traceback__)[-1:]
        raise
    self.assertEqual((frame.lineno, frame.name), (2, "f"))

  @parameterized.parameters(
    ("", "train.py --x ended before an Estimator trained; give it the "),
    ("import sys; sys.exit(3)", r"train.py --x ended \(SystemExit\(3\)\) befo"),
    (SHARDED, "train.py --x shards its EstimatorV2 itself; leave that line ou"),
  )
  def test_programs_that_train_nothing_plain(self, text, message):
    self.write(text)
    with self.assertRaisesRegex(commands.FlagsError, f"^{message}"):
      first_training.act_at_training(["train.py", "--x"], lambda *_: None)

  @parameterized.parameters(
    tiers.sample([(user_programs.SCRIPT, "--units=6"), (TPU_SCRIPT,)])
  )
  def test_a_program_is_compared_and_planned(self, text, *arguments):
    self.write(text)
    flags = ("--mesh=stage:2", "--num_micro_batches=2", "--", "train.py")
    code, output, errors = command_runs.run(
      compare_flags.COMMAND.main, "--steps=2", *flags, *arguments
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertIn("\nequal: losses, gradient norms and ", output)
    code, output, errors = command_runs.run(
      plan_flags.COMMAND.main, "--schedule=zb1p", *flags, *arguments
    )
    self.assertEqual((code, errors), (0, ""))
    title = " ".join(["train.py", *arguments])
    self.assertStartsWith(output, f"{title} on stage:2, a batch of ")
    self.assertRegex(output, r"\n1 +/device:CPU:1 +second ")


if __name__ == "__main__":
  absltest.main()
