"""The guide to the model axis draws, prints and refuses what it says."""

import contextlib
import io
import os
import pathlib
import re
import shlex
from unittest import mock

import estimator_mp
from estimator_mp.cli import plan_flags
from tests.docs import guide_case, guides
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

_GUIDE = "docs/model_axis.md"


def setUpModule():
  # The plan command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


class GuideTest(absltest.TestCase):
  def test_the_command_draws_and_prints_what_the_guide_shows(self):
    folder = pathlib.Path(self.create_tempdir().full_path)
    text = guides.read(_GUIDE)
    (command,) = re.findall(r"^    estimator-mp plan (.+)", text, re.M)
    with (
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder)),
      contextlib.redirect_stdout(io.StringIO()) as output,
    ):
      self.assertEqual(
        plan_flags.COMMAND.main(["plan", *shlex.split(command)]), 0
      )
    (picture,) = re.findall(r"\]\((pictures\S+png)\)", text)
    self.assertTrue((folder / "docs" / picture).exists(), output.getvalue())
    (example,) = re.findall(r"```\n(variable .*?)```", text, re.S)
    rest = output.getvalue()
    for line in example.replace("...\n", "").splitlines():
      _, found, rest = rest.partition(line)
      self.assertEqual(found, line)


def _loop(features, labels, mode):
  """A model with a kernel that only a loop reads."""
  x, v1 = features["x"], tf.compat.v1
  kernel = v1.get_variable("loop/kernel", [20, 20], use_resource=True)
  _, net = tf.while_loop(
    lambda i, y: i < 2, lambda i, y: (i + 1, tf.matmul(y, kernel)), (0, x)
  )
  loss = tf.reduce_mean((v1.layers.dense(net, 1) - labels) ** 2)
  return parts.spec(mode, loss, v1.train.AdagradOptimizer(0.1))


class ErrorsTest(guide_case.GuideCase):
  @parameterized.parameters(
    (("dens/kernel", 1), "no variable of .* nearest to it is 'dense/kernel'"),
    (("dense/kernel", 2), r"axis 2, but dense/kernel has the shape \(20, 16\)"),
    (
      ("dense_3/kernel", 1),
      r"2 shards of axis 1 of .*, whose shape is \(16, 1\)",
    ),
    (("loop/kernel", 1), "loop/kernel cannot be split .*: while"),
    (("dense/kernel", 1), "would read all of it", "error"),
  )
  def test_is_raised_before_anything_is_trained(
    self, rule, text, gathers="allow"
  ):
    names = guides.before_training(_GUIDE, 0)
    with tf.Graph().as_default(), self.assertRaisesRegex(ValueError, text):
      tf.compat.v1.train.create_global_step()
      data = tf.compat.v1.data.make_one_shot_iterator(names["input_fn"]())
      config = estimator_mp.ShardingConfig(
        "model:2", split=[rule, (".", None)], gathers=gathers
      )
      model_fn = _loop if "loop" in rule[0] else names["model_fn"]
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      sharded(*data.get_next(), tf.estimator.ModeKeys.TRAIN)


if __name__ == "__main__":
  absltest.main()
