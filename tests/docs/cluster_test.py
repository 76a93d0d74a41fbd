"""The guide to several machines: its commands, programs and picture."""

import contextlib
import io
import os
import pathlib
import re
from unittest import mock

from estimator_mp.cli.launching import network
from estimator_mp.cluster import tasks
from tests import tiers
from tests.compat import processes
from tests.docs import guide_case, guides
from tools import draw_cluster

import tensorflow as tf
from absl.testing import absltest

_GUIDE = "docs/cluster.md"
# A test sees links to the files it declares; they lead to the source tree.
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# What srun sets for the second of three tasks.
_SLURM = {
  "SLURM_PROCID": "1",
  "SLURM_STEP_NODELIST": "n[9-11]",
  "SLURM_STEP_NUM_TASKS": "3",
  "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
  "SLURMD_NODENAME": "n10",
}
_SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames n[9-11]" ] && printf 'n9\\nn10\\nn11\\n'
"""


class GuideTest(guide_case.GuideCase):
  def setUp(self):
    super().setUp()
    (self.folder / "examples").symlink_to(_ROOT / "examples")
    self.enter_context(mock.patch.dict(os.environ))
    os.environ.pop("TF_CONFIG", None)
    self.text = guides.read(_GUIDE)

  @tiers.slow
  def test_the_local_cluster(self):
    (arguments,) = guide_case.commands(_GUIDE, "launch")
    # Where no network of its own is permitted, this one is trusted.
    if network.reason_against() is not None:
      arguments.insert(0, "--network=host")
    arguments += ["--max_steps=3", "--trusted_network"]
    ran = processes.run("-m", "estimator_mp", "launch", *arguments)
    self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
    (shown,) = re.findall(r"```\n(\[chief 0\].*?)```", self.text, re.S)
    self.assertIn(shown, ran.stdout)
    parts = (self.folder / "runs/digits").glob("model.ckpt-3.data-*")
    (named,) = re.findall(r"`model\.ckpt-100\.(data-\S+)`", self.text)
    self.assertIn(f"model.ckpt-3.{named}", [path.name for path in parts])

  @tiers.slow
  def test_the_programs(self):
    program, _, _, with_input_by_task = guides.programs(_GUIDE)
    self._run(program, "runs/mlp")
    self.assertTrue((self.folder / "runs/mlp/input_position-20.index").exists())
    self._run(with_input_by_task, "runs/input")

  def _run(self, program, model_dir):
    """Runs a program, which trains and evaluates in a folder."""
    with contextlib.redirect_stdout(io.StringIO()):
      guides.run(program)
    trained = self.folder / model_dir
    self.assertTrue((trained / "model.ckpt-20.index").exists())
    self.assertNotEmpty([*trained.glob("eval*")])

  @tiers.slow
  def test_slurm(self):
    _, of_slurm, by_hand, *_ = guides.programs(_GUIDE)
    os.environ.update(_SLURM)
    with self.assertRaisesRegex(ValueError, "sorts the names of nodes as text"):
      guides.run(of_slurm)
    scontrol = self.folder / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(_SCONTROL, encoding="utf-8")
    scontrol.chmod(0o755)
    os.environ["PATH"] = f"{scontrol.parent}:{os.environ['PATH']}"
    guides.run(by_hand)
    self._assert_joined(["n9:8888", "n10:8888", "n11:8888"])
    del os.environ["TF_CONFIG"]
    os.environ.update(
      SLURM_STEP_NODELIST="n[09-11]", SLURMD_NODENAME="n10", SLURM_PROCID="1"
    )
    guides.run(of_slurm)
    self._assert_joined(["n09:8888", "n10:8888", "n11:8888"])

  def _assert_joined(self, addresses):
    cluster = tasks.from_environment()
    self.assertEqual(cluster.task, tasks.Task("worker", 0))
    found = [cluster.address(task) for task in cluster.tasks]
    self.assertEqual(found, addresses)
    self.assertEqual(tf.estimator.RunConfig().master, f"grpc://{addresses[1]}")

  def test_tf_config(self):
    (text,) = re.findall(r"^TF_CONFIG='(.*)'$", self.text, re.M)
    cluster = tasks.from_environment({"TF_CONFIG": text})
    self.assertLen(cluster.tasks, 3)
    self.assertEqual(cluster.task, tasks.Task("worker", 0))

  def test_the_picture(self):
    draw_cluster.main([f"--root={self.folder}"])
    self.assertEqual(self.picture(_GUIDE).read_bytes()[1:4], b"PNG")
    self.assertTrue((_ROOT / "docs/pictures/cluster/roles.png").exists())
    held = {
      str(box.task): box.lines
      for jobs in draw_cluster.CLUSTERS
      for row in draw_cluster.rows_of(jobs)
      for box in row
      if "ps" not in jobs
    }
    self.assertIn("holds stage 2", held["worker 1"])
    self.assertIn("holds stages 0, 1, 2", held["evaluator 0"])

  def test_files_that_are_named_exist(self):
    names = re.findall(r"\b((?:examples|tests)/[\w/]+\.\w+)", self.text)
    self.assertContainsSubset(
      ["examples/cluster/train.sbatch", "examples/cluster/tfjob.yaml"], names
    )
    for name in names:
      self.assertTrue((_ROOT / name).exists(), name)


if __name__ == "__main__":
  absltest.main()
