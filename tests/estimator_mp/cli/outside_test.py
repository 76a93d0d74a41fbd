"""Who is on another machine reaches no server that a command has opened.

Each command that opens one runs on a machine of its own, a network namespace.
Another machine then tries each port at which a process of the command listens.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import estimator_mp  # noqa: F401
from estimator_mp.serving import export_stages
from tests import tiers
from tests.compat import processes
from tests.estimator_mp.distributed import clusters, namespaces
from tests.estimator_mp.serving import chains, served_models

from absl.testing import absltest, parameterized

_SECONDS = 200.0
_LISTEN = (
  "import json, os, socket, time\n"
  "config = json.loads(os.environ['TF_CONFIG'])\n"
  "task = config['task']\n"
  "address = config['cluster'][task['type']][task['index']]\n"
  "server = socket.create_server(('', int(address.split(':')[1])))\n"
  "time.sleep(1000)\n"
)
# Prints the ports of an address that let it connect.
_CONNECT = (
  "import socket, sys\n"
  "for port in sys.argv[2:]:\n"
  "  try:\n"
  "    socket.create_connection((sys.argv[1], int(port)), 5).close()\n"
  "    print(port)\n"
  "  except OSError: pass\n"
)


def _family(process):
  """Returns the numbers of a process and of all that it has started."""
  found, parents = {process}, {}
  for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
    try:
      after_name = path.read_text().rpartition(")")[2].split()
      parents[int(path.parent.name)] = int(after_name[1])
    except OSError:  # It has ended.
      pass
  while more := {x for x, parent in parents.items() if parent in found} - found:
    found |= more
  return found


def _listening(process):
  """Returns the ports at which a process, or what it has started, listens."""
  found = set()
  for number in _family(process):
    try:
      files = [*pathlib.Path(f"/proc/{number}/fd").iterdir()]
      names = " ".join(map(os.readlink, files))
      listening = namespaces.listening_sockets(number)
    except OSError:  # It has ended, or has closed a file.
      continue
    own = {int(x) for x in re.findall(r"socket:\[(\d+)\]", names)}
    found |= {port for port, socket in listening if socket in own}
  return found


@tiers.slow
class OutsideTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    folder = tempfile.mkdtemp(dir=absltest.TEST_TMPDIR.value)
    model = served_models.MODELS["outputs"]
    cls.stages = export_stages.export_stages(
      chains.trained(model, folder),
      folder,
      served_models.receiver_fn("x", "ids"),
    )

  def setUp(self):
    super().setUp()
    self.machines = self.enter_context(namespaces.machines(self, 2))

  def _start(self, *command, **environment):
    """Starts a command on machine 0."""
    process = subprocess.Popen(
      [*self.machines.command(0), sys.executable, *command],
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      env=processes.environment(**environment),
    )
    self.enter_context(process)
    self.addCleanup(self._end, process)
    return process

  def _end(self, process):
    process.terminate()
    try:
      process.wait(30)
    except subprocess.TimeoutExpired:
      process.kill()

  def _reached(self, process, count):
    """Returns which ports machine 1 reaches, once so many are open."""
    end = time.monotonic() + _SECONDS
    while len(ports := _listening(process.pid)) < count:
      if process.poll() is not None:
        self.fail(process.communicate()[0])
      self.assertLess(time.monotonic(), end)
      time.sleep(0.1)
    found = subprocess.run(
      [
        *self.machines.command(1),
        *(sys.executable, "-I", "-S", "-c", _CONNECT),
        *(self.machines.addresses[0], *map(str, ports)),
      ],
      capture_output=True,
      text=True,
      check=True,
    )
    return found.stdout.split()

  def test_a_server_on_all_interfaces_would_be_reached(self):
    config = clusters.tf_config({"chief": ["a:2222"]}, "chief")
    process = self._start("-c", _LISTEN, TF_CONFIG=config)
    self.assertEqual(self._reached(process, 1), ["2222"])

  def test_serve(self):
    process = self._start(
      *("-m", "estimator_mp", "serve", "--port=8500"),
      f"--stage_dir={self.stages}/stage_0",
    )
    self.assertEmpty(self._reached(process, 1))

  def test_predict(self):
    examples = os.path.join(self.create_tempdir().full_path, "in.jsonl")
    os.mkfifo(examples)  # It waits for examples that never come.
    process = self._start(
      *("-m", "estimator_mp", "predict", f"--stages={self.stages}"),
      f"--examples={examples}",
    )
    self.assertEmpty(self._reached(process, 2))

  def test_train_refuses_to_serve(self):
    made = {"chief": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223"]}
    process = self._start(
      *("-m", "estimator_mp", "train", "--model=mlp", "--mesh=stage:2"),
      f"--model_dir={self.create_tempdir().full_path}/run",
      TF_CONFIG=clusters.tf_config(made, "worker"),
    )
    output, _ = process.communicate(timeout=_SECONDS)
    self.assertNotEqual(process.returncode, 0)
    self.assertIn(
      "would serve on all interfaces of this machine (eth0)", output
    )


if __name__ == "__main__":
  absltest.main()
