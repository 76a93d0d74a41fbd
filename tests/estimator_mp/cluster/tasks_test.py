"""The tasks that TF_CONFIG names."""

import json

from estimator_mp.cluster import tasks
from estimator_mp.cluster.tasks import Task

from absl.testing import absltest, parameterized

_CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}


def _read(cluster, job="chief", index=0):
  config = {"cluster": cluster, "task": {"type": job, "index": index}}
  return tasks.from_environment({"TF_CONFIG": json.dumps(config)})


class TasksTest(parameterized.TestCase):
  @parameterized.parameters(
    ({},), ({"TF_CONFIG": ""},), ({"TF_CONFIG": '{"task": {}}'},)
  )
  def test_no_cluster(self, environment):
    self.assertIsNone(tasks.from_environment(environment))

  def test_the_mesh_is_of_all_tasks(self):
    cluster = _read(_CLUSTER, "worker", 1)
    expected = (Task("chief", 0), Task("worker", 0), Task("worker", 1))
    self.assertEqual(cluster.tasks, expected)
    self.assertEqual(cluster.mesh_tasks, expected)
    self.assertEqual(cluster.chief, expected[0])
    self.assertEqual(cluster.address(cluster.task), "c:1")
    self.assertEqual(str(cluster), "chief:1, worker:2")
    self.assertEqual(str(cluster.task), "worker 1")
    self.assertEqual(cluster.task.device_prefix, "/job:worker/task:1")
    self.assertFalse(cluster.is_between_graph)

  def test_with_parameter_servers_each_has_a_mesh_of_its_own(self):
    cluster = _read({**_CLUSTER, "ps": ["d:1"]}, "worker", 1)
    self.assertEqual(cluster.mesh_tasks, (Task("worker", 1),))
    self.assertTrue(cluster.is_between_graph)

  def test_the_evaluator_is_beside_it(self):
    cluster = _read(_CLUSTER, "evaluator")
    self.assertEqual(cluster.mesh_tasks, ())
    self.assertLen(cluster.tasks, 3)
    self.assertFalse(cluster.has_evaluator)
    named = _read({**_CLUSTER, "evaluator": ["d:1"]})
    self.assertEqual(named.jobs, cluster.jobs)
    self.assertTrue(named.has_evaluator)

  def test_an_only_task_has_local_devices(self):
    self.assertEqual(_read({"chief": ["a:1"]}).mesh_tasks, ())

  def test_a_master_is_a_chief(self):
    cluster = _read({"master": ["a:1"], "worker": ["b:1"]}, "master")
    self.assertEqual(cluster.chief, Task("master", 0))

  @parameterized.parameters(
    ("{", "is not valid JSON"),
    ("[" * 100_000, r"\.\.\.' is not valid JSON .its brackets are nested"),
    ("[]", "it is not an object"),
    ('{"cluster": ["a:1"]}', "its cluster is not an object"),
    ('{"cluster": {"wroker": ["a:1"]}}', "'wroker' is not one of chief, maste"),
    ('{"cluster": {"chief": "a:1"}}', "addresses of 'chief' are not a list of"),
    (
      '{"cluster": {"chief": ["a:1"]}, "task": {"type": "worker"}}',
      "task type 'worker' is not one of the cluster's jobs chief",
    ),
    (
      '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 1}}',
      "task index 1 is not one of the 1 of chief",
    ),
    (
      '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}',
      "the cluster needs exactly one chief",
    ),
  )
  def test_what_is_malformed(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      tasks.from_environment({"TF_CONFIG": text})


if __name__ == "__main__":
  absltest.main()
