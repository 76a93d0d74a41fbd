"""BERT on a model axis, as its code has it: two sums a layer, each way.

A masked language model whose head shares the table of words (Devlin et al.,
2018, arXiv:1810.04805), in the way of the published code: matrices in place of
batches, masks that are added to scores, losses of `log_softmax` and `one_hot`,
positions that are gathered from flat rows, and an Adam of its own. What
`split="auto"` makes of it is Megatron-LM's (Shoeybi et al., 2019,
arXiv:1909.08053).
"""

import collections
import functools
import os
import tempfile

import estimator_mp
from estimator_mp.planning import sharding_plan, split_plan
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.equality import bert
from tests.estimator_mp.model_axis import observed_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_STEPS = 8 if tiers.FAST else 20


@functools.cache
def _start_and_plain_run():
  """Returns a folder to start from, and the plain run from there."""
  folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
  start = os.path.join(folder, "start")
  runs.train(bert.model_fn, None, None, start, 1, bert.input_fn)
  return start, runs.go_on(
    bert.model_fn,
    None,
    None,
    start,
    os.path.join(folder, "plain"),
    _STEPS,
    bert.input_fn,
  )


class BertTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.parameters(
    tiers.sample(
      [
        ("model:3", 1),
        ("data:2,model:2", 4),
      ]
    )
  )
  def test_training_is_the_plain_one_s(self, mesh, num_micro_batches):
    start, plain = _start_and_plain_run()
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    sharded = estimator_mp.shard_model_fn(bert.model_fn, config)
    folder = os.path.join(self.create_tempdir().full_path, "sharded")
    run = runs.go_on(
      sharded, config, None, start, folder, _STEPS, bert.input_fn
    )
    np.testing.assert_allclose(run.losses, plain.losses, rtol=1e-5)
    self.assertCountEqual(run.variables, plain.variables)
    for name, value in plain.variables.items():
      # What nothing depends on, as the bias of keys, moves by what is rounded.
      np.testing.assert_allclose(
        run.variables[name], value, rtol=1e-4, atol=1e-5, err_msg=name
      )


class StepTest(parameterized.TestCase):
  """What a step computes and sends, read from its partition graphs."""

  def _step(self, num_parts):
    graph = self.enter_context(tf.Graph().as_default())
    examples = {**bert.EXAMPLES, "labels": bert.LABELS}
    step = observed_steps.ObservedStep.of_model(
      bert.model_fn,
      None,
      {name: value[: bert.BATCH] for name, value in examples.items()},
      num_parts,
    )
    self.plan = sharding_plan.get_plan(graph).splits
    return step

  # On more devices what is whole weighs more: so the head of words is split,
  # too. The pooler, of one token of each example, has a kernel of that shape,
  # and stays whole.
  @parameterized.parameters(
    tiers.sample([(2, ()), (4, ((bert.WIDTH, bert.WIDTH),))])
  )
  def test_is_megatron_lm_s(self, num_parts, heads):
    step = self._step(num_parts)
    graph = v1.get_default_graph()
    values = step.values(
      tensor.name
      for op in graph.get_operations()
      if op.name in step.graph.nodes and op.type != "Placeholder"
      for tensor in op.outputs
      if tensor.dtype.is_floating
    )
    self._assert_two_sums_in_each_layer_each_way(step, values, num_parts)
    self._assert_no_whole_kernel(values, heads)
    self._assert_sends_what_is_planned(step, num_parts)

  def _assert_two_sums_in_each_layer_each_way(self, step, values, num_parts):
    """Counts sums over all devices of what layers pass on."""
    found = collections.Counter()
    for name, node in step.graph.nodes.items():
      value = values.get(f"{name}:0")
      if node.op not in ("Add", "AddN", "AddV2") or value is None:
        continue
      beside = {step.device_of(x) for x in step.graph.inputs_of(name)}
      if (
        len(beside) == num_parts
        and value.size == bert.BATCH * bert.LENGTH * bert.WIDTH
      ):
        found["gradients" in name] += 1
    self.assertEqual(found, {False: 2 * bert.LAYERS, True: 2 * bert.LAYERS})

  def _assert_no_whole_kernel(self, tensors, heads):
    """Asserts that nothing is as large as what is split, nor as logits."""
    whole = {x.shape for x in self.plan.variables if len(x.shape) > 1}
    kernels = [
      (bert.WIDTH, bert.HEADS * bert.HEAD_WIDTH),
      (bert.WIDTH, bert.INNER),
    ]
    kernels += [shape[::-1] for shape in kernels]
    self.assertCountEqual(whole, [*kernels, *heads, (bert.WORDS, bert.WIDTH)])
    self.assertEmpty(
      {
        name: value.shape
        for name, value in tensors.items()
        if value.shape in whole.difference(heads) or bert.WORDS in value.shape
      }
    )
    self.assertEmpty(self.plan.gathers)

  def _assert_sends_what_is_planned(self, step, num_parts):
    """Compares bytes, but for what only the ids of a batch tell.

    Of the softmax over words all send a maximum and a sum for each word that is
    masked, and hear of the whole sum; backward one number each way.
    """
    sizes = step.sent()
    statistics = [size for name, size in sizes if "cls/LogSoftmax" in name]
    self.assertEqual(
      statistics, [bert.BATCH * bert.MASKED * 4] * 5 * (num_parts - 1)
    )
    planned = [
      x
      for x in self.plan.sent
      if "cls/LogSoftmax" not in x.tensor
      and not (x.kind == split_plan.EXCHANGE and x.type == "ResourceGather")
    ]
    self.assertAlmostEqual(
      sum(size for _, size in sizes) - sum(statistics),
      sum(x.num_bytes for x in planned),
      delta=4 * num_parts,  # A number that TensorFlow makes again.
    )


if __name__ == "__main__":
  absltest.main()
