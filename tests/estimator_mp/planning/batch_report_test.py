"""What a plan says of the batch, as data."""

import dataclasses
import json
from unittest import mock

from estimator_mp.config import placement
from estimator_mp.planning import batch_report, sharding_plan
from estimator_mp.planning.batch_report import (
  BatchReport,
  ExecutedOnce,
  Moved,
  Where,
  Why,
)

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_PYTHON = ExecutedOnce("layer/py.x", "PyFunc", Why.PYTHON)
_TOP = ExecutedOnce("TopKV2", "TopKV2", Why.ACROSS, Where.AFTER)
_LOOKUP = ExecutedOnce("lookup", "GatherV2", Why.ACROSS, Where.BEFORE)
_RESHAPE = ExecutedOnce("Reshape", "Reshape", Why.SIZES, Where.BEFORE)
_ROOT = ExecutedOnce("Sqrt", "Sqrt", Why.SUM)
_NORM = ExecutedOnce("bn", "FusedBatchNormV3", Why.MOMENTS)
_GRADIENT = ExecutedOnce("own", "IdentityN", Why.FUNCTION)
# Most of the work is executed once.
_STOPPED = BatchReport(
  0, (_LOOKUP,), flops=800, flops_in_parts=80, stopped_by=_RESHAPE
)


class SegmentsTest(absltest.TestCase):
  def _assert_says(self, found, *texts):
    """Asserts that each line matches its text."""
    for line, text in zip(found.lines(), texts, strict=True):
      self.assertRegex(line, text)

  def test_one_segment(self):
    found = BatchReport(1, flops=800, flops_in_parts=800, inputs=Moved(20))
    self._assert_says(
      found,
      "^1 segment, .* 100% of floating-point operations are executed in parts",
      "20 B per example of inputs, nothing of activations; joined: nothing",
    )

  def test_several_segments(self):
    found = BatchReport(
      3,
      (_PYTHON, _ROOT, _TOP, _LOOKUP),
      flops=800,
      flops_in_parts=600,
      inputs=Moved(20, 0, 1),
      cut=Moved(0, 0, 2),
      joined=Moved(1500, 8),
    )
    self._assert_says(
      found,
      r"^3 segments, .* 75\.0% of floating-point operations are executed in",
      "20 B per example and 1 tensor of unknown size of inputs, 2 tensors of "
      r"unknown .* joined: 1\.50 kB per example and 8 B per slice",
      r"layer/py.x \(PyFunc\) ends a .*: Python.*per_example=\['\^layer/py\\\\",
      r"Sqrt \(Sqrt\) ends a segment: slices wait for a sum over all examples",
      r"TopKV2 \(TopKV2\) is executed once, on joined .*per_example=\['\^TopK",
      r"lookup \(GatherV2\) is executed once, before slices begin",
    )

  def test_a_batch_of_known_size(self):
    found = BatchReport(
      1, inputs=Moved(20), joined=Moved(4, 8), num_slices=4, num_examples=32
    )
    self._assert_says(found, "^1 segment", f"640 B .* {4 * 32 + 8 * 4} B$")

  def test_nearly_all_is_not_all(self):
    found = BatchReport(1, flops=10**9, flops_in_parts=10**9 - 1)
    self.assertIn("; 99.9% of", found.lines()[0])
    self.assertEqual(BatchReport(1).share_in_parts, 1.0)

  def test_many_ops(self):
    lines = BatchReport(8, (_ROOT,) * 7).lines()
    self.assertLen(lines, 2 + 5 + 1)
    self.assertEqual(lines[-1], "  and 2 ops more")

  def test_json(self):
    found = BatchReport(2, (_TOP,), 10, 5, Moved(1, 2, 3), num_examples=8)
    values = json.loads(json.dumps(found.to_dict()))
    (once,) = values.pop("once")
    self.assertIn("per_example=['^TopKV2$']", once.pop("help"))
    self.assertEqual(
      once, {"name": "TopKV2", "type": "TopKV2", "where": "after"}
    )
    nothing = {"per_example": 0, "per_slice": 0, "num_unknown": 0}
    self.assertEqual(
      values,
      {
        "count": 2,
        "flops": 10,
        "flops_in_parts": 5,
        "inputs": {"per_example": 1, "per_slice": 2, "num_unknown": 3},
        "cut": nothing,
        "joined": nothing,
        "num_slices": 1,
        "num_examples": 8,
        "stopped_by": None,
        "helpful_batch_size": None,
        "helpful_ops": [],
      },
    )
    values = json.loads(json.dumps(_STOPPED.to_dict()))
    self.assertEqual(values["stopped_by"]["name"], "Reshape")

  def test_the_plan_says_it(self):
    plan = sharding_plan.ShardingPlan(placement.Placement(()))
    table = str(plan)
    self.assertEqual(table, plan.placement.table())
    found = BatchReport(1)
    step = mock.Mock(segments=found)
    plan = sharding_plan.ShardingPlan(plan.placement, step=step)
    self.assertEqual(str(plan), f"{table}\n\n{found}")

  def test_a_warning_of_most_of_the_work(self):
    self.assertRegex(
      _STOPPED.warning(),
      r"share 10% of .* as Reshape \(Reshape\) is: its sizes are not known .*"
      r"x.set_shape.* write -1 .* per_example=\['\^Reshape\$'\]",
    )
    self.assertEqual(BatchReport(3, (_PYTHON,)).warning(), "")

  def test_a_warning_names_what_was_tried(self):
    found = dataclasses.replace(_STOPPED, helpful_ops=("Reshape", "Reshape_1"))
    self.assertEndsWith(
      found.warning(),
      "per_example=['^Reshape$', '^Reshape_1$'] if each of them computes each "
      "example by itself",
    )
    found = dataclasses.replace(_STOPPED, helpful_batch_size=8)
    self.assertEndsWith(
      found.warning(),
      "for any number of examples; use static_batch_size=8 if all batches have "
      "as many examples",
    )


class CheckTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("nothing", BatchReport(3), "error"),
    ("allowed", BatchReport(3, (_PYTHON, _TOP)), "allow"),
    # Slices exchange a statistic, and nothing is executed on joined tensors.
    ("statistics", BatchReport(3, (_ROOT, _NORM)), "error"),
    ("before", BatchReport(3, (_LOOKUP,)), "error"),
    ("most_of_the_work", _STOPPED, "allow"),
  )
  def test_passes(self, found, fallback):
    batch_report.check(found, fallback)

  @parameterized.named_parameters(
    (
      "between_segments",
      BatchReport(3, (_ROOT, _PYTHON)),
      r"'layer/py.x' \(PyFunc\) .* ends a segment; use per_example=.*\^layer",
    ),
    (
      "behind_the_last",
      BatchReport(3, (_TOP,)),
      r"'TopKV2' \(TopKV2\) is executed once, on joined tensors; use per_exam",
    ),
    (
      "nothing_to_say",
      BatchReport(3, (_GRADIENT,)),
      r"'own' \(IdentityN\) .* ends a segment; use fallback=",
    ),
    (
      "several",
      BatchReport(3, (_PYTHON, _GRADIENT, _TOP)),
      r"3 ops are .*: 'layer/py.x' \(PyFunc\), 'own' \(IdentityN\), 'TopKV2' "
      r".* per_example=\['\^layer/py\\\\.x\$', '\^TopKV2\$'\] for those",
    ),
    (
      "many",
      BatchReport(3, (_GRADIENT,) * 7),
      r"7 ops are .*( 'own' \(IdentityN\),?){5} and 2 more; use fallback=",
    ),
    (
      "most_of_the_work",
      _STOPPED,
      r"'Reshape' \(Reshape\) .* before slices begin; set dimensions .*\^Resha",
    ),
    (
      "a_batch_size",
      dataclasses.replace(_STOPPED, helpful_batch_size=8),
      "'Reshape' .* begin; use static_batch_size=8 if .*, or fallback=",
    ),
  )
  def test_errors(self, found, message):
    with self.assertRaisesRegex(ValueError, f'fallback="error", but {message}'):
      batch_report.check(found, "error")


if __name__ == "__main__":
  absltest.main()
