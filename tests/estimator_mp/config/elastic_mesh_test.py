"""The mesh that fits the tasks that are left."""

import json
import math
import os
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.config import elastic_mesh

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies


def _tasks(left, planned=None, job="chief"):
  """Makes this process one of the tasks that are left."""
  cluster = {"chief": ["a:1"], "worker": [f"b:{i}" for i in range(1, left)]}
  cluster = {name: found for name, found in cluster.items() if found}
  config = {"cluster": cluster, "task": {"type": job, "index": 0}}
  if planned is not None:
    config["elastic"] = {"tasks": planned}
  return mock.patch.dict(os.environ, TF_CONFIG=json.dumps(config))


class ElasticMeshTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("replicas_go_first", "data:4,stage:2", 8, 7, "data:2,stage:2"),
    ("in_the_order_of_the_text", "stage:2,data:4", 8, 4, "stage:2,data:2"),
    ("then_stages", "data:2,stage:4", 8, 3, "data:1,stage:3"),
    ("stages_alone", "stage:3", 3, 2, "stage:2"),
    ("parts_stay", "stage:2,model:2", 4, 3, "stage:1,model:2"),
    ("several_devices_a_task", "data:2,stage:4", 4, 2, "data:1,stage:4"),
    ("all_are_there", "data:4", 4, 4, "data:4"),
    ("one_is_left", "data:2,stage:2", 4, 1, "data:1,stage:1"),
  )
  def test_fits(self, mesh, planned, left, expected):
    for job in ("chief", "worker", "evaluator"):
      if left > 1 or job != "worker":
        with _tasks(left, planned, job):
          self.assertEqual(toolbox.elastic_mesh(mesh), expected)

  def test_is_the_same_where_nothing_was_lost(self):
    self.assertEqual(toolbox.elastic_mesh("data:2,stage:3"), "data:2,stage:3")
    with _tasks(2):
      self.assertEqual(toolbox.elastic_mesh("data:2,stage:3"), "data:2,stage:3")

  def test_tasks_that_are_left_over_hold_nothing(self):
    with _tasks(3, 4):
      mesh = estimator_mp.Mesh.create(toolbox.elastic_mesh("data:4"))
    self.assertEqual(
      mesh.devices,
      ("/job:chief/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"),
    )

  @hypothesis.given(
    strategies.lists(strategies.integers(1, 6), min_size=3, max_size=3),
    strategies.integers(1, 40),
  )
  def test_it_fits_and_the_batch_divides(self, sizes, most):
    axes = dict(zip(("data", "stage", "model"), sizes, strict=True))
    hypothesis.assume(axes["model"] <= most)
    found = elastic_mesh.fitted(axes, most)
    self.assertLessEqual(math.prod(found.values()), most)
    self.assertEqual(axes["data"] % found["data"], 0)
    self.assertEqual(found["model"], axes["model"])
    self.assertLessEqual(found["stage"], axes["stage"])
    if found["stage"] < axes["stage"]:
      self.assertEqual(found["data"], 1)

  def test_a_model_axis_that_does_not_fit(self):
    with (
      _tasks(3, 4),
      self.assertRaisesRegex(
        ValueError,
        r"3 device\(s\) are left for mesh model:4, whose model axis needs 4; "
        "start more tasks",
      ),
    ):
      toolbox.elastic_mesh("model:4")

  @parameterized.parameters(("8",), (-1,), (None,), ([8],))
  def test_what_is_malformed(self, planned):
    config = {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}}
    config["elastic"] = {"tasks": planned}
    with (
      mock.patch.dict(os.environ, TF_CONFIG=json.dumps(config)),
      self.assertRaisesRegex(
        ValueError, "its elastic does not give a number of tasks"
      ),
    ):
      toolbox.elastic_mesh("stage:2")


if __name__ == "__main__":
  absltest.main()
