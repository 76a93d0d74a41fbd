"""The program of examples/cluster trains, as each of its files starts it."""

import contextlib
import glob
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from tests import tiers
from tests.compat import processes
from tests.estimator_mp.distributed import clusters

from absl.testing import absltest

_ROOT = pathlib.Path(__file__).parents[2]
_FOLDER = _ROOT / "examples" / "cluster"
_SECONDS = 600

# What srun does for the three tasks of one node, with the variables that it
# sets. All of them end when the test does, whose end closes the input.
_SRUN = """#!{python}
import os, signal, subprocess, sys, threading

def end_with_test():
  sys.stdin.read()
  os.killpg(0, signal.SIGKILL)

def start(rank):
  return subprocess.Popen(
    sys.argv[sys.argv.index("bash"):],
    stdin=subprocess.DEVNULL,
    env={{
      **os.environ,
      "SLURM_PROCID": str(rank),
      "SLURM_STEP_NODELIST": "localhost",
      "SLURM_STEP_NUM_TASKS": "3",
      "SLURM_STEP_TASKS_PER_NODE": "3",
      "SLURMD_NODENAME": "localhost",
    }},
  )

threading.Thread(target=end_with_test, daemon=True).start()
running = [start(rank) for rank in range(3)]
sys.exit(max(process.wait() for process in running))
"""


def _run(arguments, environment):
  """Runs a command; returns its exit code and what it has printed."""
  with tempfile.TemporaryFile("w+") as output:
    process = subprocess.Popen(
      arguments,
      stdin=subprocess.PIPE,
      stdout=output,
      stderr=subprocess.STDOUT,
      env=environment,
      start_new_session=True,
    )
    try:
      code = process.wait(_SECONDS)
    finally:
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
      process.wait()
      process.stdin.close()
    output.seek(0)
    return code, output.read()


@tiers.slow
class SlurmTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.script = _FOLDER / "train.sbatch"

  def test_bash_and_slurm_understand_it(self):
    subprocess.run(["bash", "-n", self.script], check=True)
    text = self.script.read_text(encoding="utf-8")
    said = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.M))
    self.assertEqual(said["nodes"], "3")
    self.assertEqual(said["ntasks-per-node"], "1")
    # Slurm reads no directive behind the first command.
    self.assertLess(text.rindex("#SBATCH"), text.index("set -euo"))
    self.assertLen(re.findall("^#SBATCH", text, re.M), len(said))

  def test_it_trains(self):
    folder = pathlib.Path(self.create_tempdir().full_path)
    (folder / "examples").symlink_to(_ROOT / "examples")
    srun = folder / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(_SRUN.format(python=sys.executable), encoding="utf-8")
    srun.chmod(0o755)
    environment = processes.environment(
      **{name: None for name in os.environ if name.startswith("SLURM")}
    )
    environment |= {
      "PATH": f"{srun.parent}:{os.environ['PATH']}",
      "PYTHON": sys.executable,
      "SLURM_JOB_NAME": "digits",
      "SLURM_SUBMIT_DIR": str(folder),
    }
    port = clusters.free_ports_in_a_row(3)
    flags = [f"--port_base={port}", "--max_steps=3"]
    code, output = _run(["bash", self.script, *flags], environment)
    self.assertEqual(code, 0, output)
    self.assertNotIn("attempt", output)
    self.assertTrue(glob.glob(f"{folder}/runs/digits/model.ckpt-3.index"))


@unittest.skipIf(importlib.util.find_spec("yaml") is None, "PyYAML is missing")
@tiers.slow
class KubernetesTest(absltest.TestCase):
  def test_its_command_trains(self):
    import yaml

    text = (_FOLDER / "tfjob.yaml").read_text(encoding="utf-8")
    _, job = yaml.safe_load_all(text)
    replicas = job["spec"]["tfReplicaSpecs"]
    # The operator names the evaluator in the cluster, too.
    counts = {kind.lower(): x["replicas"] for kind, x in replicas.items()}
    cluster = clusters.make_cluster(**counts)
    model_dir = self.create_tempdir().full_path
    with clusters.Processes(cluster) as processes:
      for kind, replica in replicas.items():
        (container,) = replica["template"]["spec"]["containers"]
        python, program, *flags = container["command"]
        self.assertEqual((python, program), ("python3", "/digits.py"))
        flags = [f"--model_dir={model_dir}", "--max_steps=3"] + [
          flag for flag in flags if not flag.startswith("--model_dir=")
        ]
        for index in range(replica["replicas"]):
          processes.start(
            kind.lower(), index, "examples.cluster.digits", *flags
          )
      for job, index in [("chief", 0), ("worker", 0), ("worker", 1)]:
        code = processes.wait(job, index, _SECONDS)
        self.assertEqual(code, 0, processes.output(job, index))
      code = processes.wait("evaluator", 0, _SECONDS)
      self.assertEqual(code, 0, processes.output("evaluator"))
      self.assertIn(
        "Saving dict for global step 3", processes.output("evaluator")
      )
      self.assertNotIn("Starting evaluation", processes.output("chief"))


if __name__ == "__main__":
  absltest.main()
