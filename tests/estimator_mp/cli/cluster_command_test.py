"""The train command in a cluster: the same command line in each task."""

import json
import os
import socket

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters

from absl.testing import absltest

_TRAIN = ("estimator_mp", "train")


@tiers.slow
class ClusterCommandTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _flags(self, name, *more):
    return [
      f"--model_dir={os.path.join(self.folder, name)}",
      "--model=mlp",
      "--mesh=stage:3",
      "--train_steps=4",
      "--save_checkpoints_steps=2",
      "--trace_steps=none",
      "--trusted_network",
      *more,
    ]

  def _result(self, name):
    with open(os.path.join(self.folder, name, "result.json")) as file:
      return json.load(file)

  def test_every_task_runs_the_same_command(self):
    made = clusters.make_cluster(chief=1, worker=2, evaluator=1)
    tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]
    with clusters.Processes(made) as processes:
      for job, index in tasks:
        flags = self._flags("cluster", "--startup_timeout=100")
        processes.start(job, index, *_TRAIN, *flags)
      alone = clusters.Processes({})
      with alone:
        alone.start("alone", 0, *_TRAIN, *self._flags("alone"), TF_CONFIG="{}")
        self.assertEqual(alone.wait("alone"), 0, alone.output("alone"))
      codes = {task: processes.wait(*task) for task in tasks}
      said = {task: processes.output(*task) for task in tasks}
    self.assertEqual(set(codes.values()), {0}, said)
    self.assertIn("step 4/4, loss", said["chief", 0])
    self.assertNotIn("evaluation at step", said["chief", 0])
    self.assertIn("evaluation at step 4: accuracy", said["evaluator", 0])
    self.assertEqual(
      said["worker", 1].splitlines()[-2:],
      ["worker 1 of the cluster takes part.", "Finished."],
    )
    found, expected = self._result("cluster"), self._result("alone")
    self.assertAlmostEqual(found["loss"], expected["loss"], 5)
    self.assertEqual(found["value"], expected["value"])
    self.assertContainsSubset(
      [f"/job:worker/task:{i}/device:CPU:0" for i in range(2)], found["devices"]
    )

  def test_what_is_wrong_is_said_in_a_line(self):
    made = clusters.make_cluster(chief=1, worker=1)
    port = int(made["worker"][0].rpartition(":")[2])
    flags = self._flags("wrong", "--mesh=stage:2", "--startup_timeout=1")
    with (
      clusters.Processes(made) as processes,
      socket.create_server(("", port)),
    ):
      processes.start("chief", 0, *_TRAIN, *flags)
      processes.start("worker", 0, *_TRAIN, *flags)
      codes = processes.wait("chief"), processes.wait("worker")
      said = processes.output("chief"), processes.output("worker")
    self.assertEqual(codes, (1, 1), said)
    worker = f"worker 0 at {made['worker'][0]}"
    self.assertIn(f"train: {worker} did not answer within 1 s; ", said[0])
    self.assertIn(
      f"train: {worker.replace('at', 'cannot serve at')}: port {port} is not ",
      said[1],
    )


if __name__ == "__main__":
  absltest.main()
