"""TF_CONFIG says what cluster resolvers say, with one chief."""

import json
import os
from unittest import mock

from estimator_mp import toolbox

import tensorflow as tf
from absl.testing import absltest, parameterized

_resolvers = tf.distribute.cluster_resolver
_THREE = {"worker": ["a:1", "b:1", "c:1"]}
_OF_SLURM = {"gpus_per_node": 2, "gpus_per_task": 1, "auto_set_gpu": False}


def _simple(jobs, job, index):
  spec = tf.train.ClusterSpec(jobs)
  return _resolvers.SimpleClusterResolver(spec, task_type=job, task_id=index)


def _address(said):
  """Returns the address that a TF_CONFIG gives its own task."""
  task = said["task"]
  return said["cluster"][task["type"]][task["index"]]


class _Case(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    tf.get_logger().setLevel("ERROR")
    kept = {
      name: value
      for name, value in os.environ.items()
      if name != "TF_CONFIG" and not name.startswith("SLURM")
    }
    self.enter_context(mock.patch.dict(os.environ, kept, clear=True))

  def _join(self, resolver):
    """Returns what TF_CONFIG says afterwards, and nothing before."""
    os.environ.pop("TF_CONFIG", None)
    said = toolbox.join_cluster(resolver)
    self.assertEqual(json.loads(os.environ["TF_CONFIG"]), said)
    self.assertEqual(said["environment"], "cloud")
    return said


class JobsTest(_Case):
  @parameterized.named_parameters(
    ("workers", _THREE),
    ("one_worker", {"worker": ["a:1"]}),
    ("chief", {"chief": ["a:1"], "worker": ["b:1", "c:1"]}),
    ("master", {"master": ["a:1"], "worker": ["b:1"]}),
    ("chief_alone", {"chief": ["a:1"]}),
    ("parameter_servers", {"ps": ["p:1", "q:1"], "worker": ["a:1", "b:1"]}),
    ("evaluator", {"chief": ["a:1"], "evaluator": ["e:1"], "worker": ["b:1"]}),
  )
  def test_all_tasks_say_the_same_cluster(self, jobs):
    """And each says of itself what the resolver has said."""
    found = []
    for job, addresses in jobs.items():
      for index, address in enumerate(addresses):
        said = self._join(_simple(jobs, job, index))
        found.append(said["cluster"])
        self.assertEqual(_address(said), address)
        self.assertEqual(
          tf.estimator.RunConfig().task_id, said["task"]["index"]
        )
    self.assertEqual(found, [found[0]] * len(found))
    chiefs = [found[0].get(job, []) for job in ("chief", "master")]
    self.assertEqual(sorted(chiefs), [[], ["a:1"]])

  def test_an_evaluator_without_an_address(self):
    said = self._join(_simple(_THREE, "evaluator", 0))
    self.assertEqual(said["task"], {"type": "evaluator", "index": 0})
    self.assertEqual(tf.estimator.RunConfig().task_type, "evaluator")


def _rest():
  return _THREE["worker"][1:]


class SlurmTest(_Case):
  def _variables(self, rank, nodes, per_node, node=None):
    """Sets what srun sets for a task."""
    total = 0
    for part in per_node.split(","):
      count, _, times = part.partition("(x")
      total += int(count) * int(times.rstrip(")") or 1)
    os.environ.update(
      SLURM_PROCID=str(rank),
      SLURM_STEP_NODELIST=nodes,
      SLURM_STEP_NUM_TASKS=str(total),
      SLURM_STEP_TASKS_PER_NODE=per_node,
    )
    if node is not None:
      os.environ["SLURMD_NODENAME"] = node
    return _resolvers.SlurmClusterResolver(**_OF_SLURM)

  def test_tasks_that_share_a_node_listen_on_other_ports(self):
    said = self._join(self._variables(2, "n[1,2]", "2,1", "n2"))
    self.assertEqual(said["cluster"]["worker"], ["n1:8889", "n2:8888"])
    self.assertEqual(_address(said), "n2:8888")
    config = tf.estimator.RunConfig()
    self.assertFalse(config.is_chief)
    self.assertEqual(config.num_worker_replicas, 3)
    self.assertEqual(config.master, "grpc://n2:8888")

  def test_jobs_that_the_program_names(self):
    self._variables(3, "n[1-4]", "1(x4)")
    jobs = {"chief": 1, "ps": 1, "worker": 2}
    said = self._join(_resolvers.SlurmClusterResolver(jobs, **_OF_SLURM))
    self.assertEqual(said["task"], {"type": "worker", "index": 1})
    self.assertEqual(said["cluster"]["ps"], ["n2:8888"])

  @parameterized.named_parameters(
    ("in_order", 0, "n[08-10]", "1(x3)", "n08"),
    ("full_name", 1, "n[1-2]", "1(x2)", "n2.example.com"),
    ("other_names", 0, "10.0.0.1,10.0.0.2", "1(x2)", "n1"),
  )
  def test_node_that_is_the_resolvers(self, *variables):
    self._join(self._variables(*variables))

  @parameterized.named_parameters(
    ("more_digits", 0, "n[9-10]", "1(x2)", "n9", "worker 0 at n10:8888"),
    ("cyclic", 1, "n[1-2]", "2(x2)", "n2", "worker 1 at n1:8889"),
  )
  def test_node_that_is_another(self, rank, nodes, per_node, node, place):
    resolver = self._variables(rank, nodes, per_node, node)
    with self.assertRaisesRegex(
      ValueError,
      f"on node {node}, .* has it as {place}: .*--distribution=block .* Si",
    ):
      self._join(resolver)
    self.assertNotIn("TF_CONFIG", os.environ)


class OthersTest(_Case):
  def test_a_resolver_that_does_not_know_the_task(self):
    """Such as that of Kubernetes."""
    with self.assertRaisesRegex(
      ValueError, "of worker:3 .*task_type=None, task_id=None.*; set its task_"
    ):
      self._join(_simple(_THREE, None, None))

  def test_tf_config_of_workers_gets_a_chief(self):
    config = {"cluster": _THREE, "task": {"type": "worker", "index": 1}}
    os.environ["TF_CONFIG"] = json.dumps({**config, "rpc_layer": "grpc"})
    for _ in range(2):
      said = toolbox.join_cluster(_resolvers.TFConfigClusterResolver())
      self.assertEqual(said["cluster"]["worker"], _rest())
      self.assertEqual(_address(said), "b:1")
      self.assertEqual(said["rpc_layer"], "grpc")

  def test_the_same_resolver_again(self):
    resolver = _simple(_THREE, "worker", 2)
    said = self._join(resolver)
    self.assertEqual(toolbox.join_cluster(resolver), said)


class ErrorsTest(_Case):
  @parameterized.named_parameters(
    ("simple", _simple({}, "worker", 0)),
    ("evaluator", _simple({"evaluator": ["e:1"]}, "evaluator", 0)),
    ("tf_config", _resolvers.TFConfigClusterResolver()),
  )
  def test_no_tasks(self, resolver):
    with self.assertRaisesRegex(
      ValueError, f"cluster_spec of {type(resolver).__name__} is empty"
    ):
      self._join(resolver)

  def test_tasks_that_are_not_numbered_from_0_on(self):
    with self.assertRaisesRegex(
      ValueError, r"has \{1: 'b:1'\} for job 'worker'; .* from 0 on$"
    ):
      self._join(_simple({"worker": {1: "b:1"}}, "worker", 1))

  @parameterized.parameters(("worker", 3), ("worker", -1), ("chief", 0))
  def test_a_task_that_does_not_exist(self, job, index):
    with self.assertRaisesRegex(
      ValueError, rf"task_type='{job}', task_id={index} .*\(worker:3\)"
    ):
      self._join(_simple(_THREE, job, index))

  @parameterized.parameters(
    ({"trainer": ["a:1"]}, "trainer", "'trainer' is not one of "),
    ({"ps": ["a:1"]}, "ps", "needs exactly one chief"),
    ({"chief": ["a:1", "b:1"]}, "chief", "needs exactly one chief"),
  )
  def test_jobs_that_are_not_those_of_tf_estimator(self, jobs, job, message):
    with self.assertRaisesRegex(
      ValueError, f"^SimpleClusterResolver .* TF_CONFIG=.*{message}"
    ):
      self._join(_simple(jobs, job, 0))
    self.assertNotIn("TF_CONFIG", os.environ)

  @parameterized.named_parameters(
    ("cluster", {"worker": ["a:1", "b:1"]}, 1),
    ("task", _THREE, 0),
  )
  def test_tf_config_that_says_something_else(self, jobs, index):
    toolbox.join_cluster(_simple(jobs, "worker", index))
    before = os.environ["TF_CONFIG"]
    with self.assertRaisesRegex(
      ValueError, r'already set to \{"cluster": .*\}, and Simple.* \{"cluster"'
    ):
      toolbox.join_cluster(_simple(_THREE, "worker", 1))
    self.assertEqual(os.environ["TF_CONFIG"], before)

  @parameterized.parameters(
    "{",
    "[1]",
    '{"cluster": {"worker": ["a:1"]}}',
    '{"cluster": [1], "task": 1}',
  )
  def test_tf_config_that_nobody_understands(self, text):
    os.environ["TF_CONFIG"] = text
    with self.assertRaisesRegex(
      ValueError, "is already set, but .*; unset it, and SimpleClusterRes"
    ):
      toolbox.join_cluster(_simple(_THREE, "worker", 1))


if __name__ == "__main__":
  absltest.main()
