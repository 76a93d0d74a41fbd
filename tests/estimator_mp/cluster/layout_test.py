"""Which task holds which position of a mesh."""

import math

from estimator_mp.cluster import layout
from estimator_mp.cluster.tasks import Task
from tests.estimator_mp import drawn

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies

_TASKS = (Task("chief", 0), Task("worker", 0), Task("worker", 1))


def _tasks_of(axes, num_tasks, **kwargs):
  """Returns the number of each position's task, in the mesh's order."""
  tasks = [Task("worker", i) for i in range(num_tasks)]
  names = layout.device_names(axes, tasks, **kwargs)
  return [int(name.split("task:")[1].split("/")[0]) for name in names]


class LayoutTest(parameterized.TestCase):
  def test_each_task_holds_one_position(self):
    self.assertEqual(
      layout.device_names({"stage": 3}, _TASKS),
      (
        "/job:chief/task:0/device:CPU:0",
        "/job:worker/task:0/device:CPU:0",
        "/job:worker/task:1/device:CPU:0",
      ),
    )

  @parameterized.named_parameters(
    ("stages_in_a_task", {"data": 2, "stage": 2}, 2, [0, 0, 1, 1]),
    ("in_any_order_of_axes", {"stage": 2, "data": 2}, 2, [0, 1, 0, 1]),
    ("parts_before_stages", {"model": 2, "stage": 2}, 2, [0, 1, 0, 1]),
    ("one_position_more", {"stage": 5}, 3, [0, 0, 1, 1, 2]),
  )
  def test_neighbours_are_in_a_task(self, axes, num_tasks, expected):
    self.assertEqual(_tasks_of(axes, num_tasks), expected)

  @hypothesis.given(
    strategies.permutations(["data", "stage", "model"]),
    strategies.lists(strategies.integers(1, 4), min_size=3, max_size=3),
    strategies.integers(1, 5),
  )
  @drawn.examples(60)
  def test_every_task_works(self, names, sizes, num_tasks):
    axes = dict(zip(names, sizes, strict=True))
    size = math.prod(sizes)
    hypothesis.assume(size >= num_tasks)
    tasks = [Task("worker", i) for i in range(num_tasks)]
    devices = layout.device_names(axes, tasks)
    self.assertLen(set(devices), size)
    held = [sum(x.startswith(t.device_prefix) for x in devices) for t in tasks]
    self.assertEqual(sum(held), size)
    self.assertLessEqual(max(held) - min(held), 1)

  def test_gpus(self):
    self.assertEqual(
      layout.device_names({"data": 2}, _TASKS[1:], "GPU", 1),
      ("/job:worker/task:0/device:GPU:0", "/job:worker/task:1/device:GPU:0"),
    )
    with self.assertRaisesRegex(
      ValueError, "data:4 needs 2 GPUs .* of 2 tasks .worker 0, .* has 1; start"
    ):
      layout.device_names({"data": 4}, _TASKS[1:], "GPU", 1)

  def test_a_task_with_nothing_to_do(self):
    with self.assertRaisesRegex(
      ValueError, "stage:2 has 2 .* 3 tasks .chief 0, worker 0, worker 1.*; st"
    ):
      layout.device_names({"stage": 2}, _TASKS)


if __name__ == "__main__":
  absltest.main()
