"""The comparison of two versions' graphs."""

import gzip
import os
import subprocess

from tests import tiers
from tests.compat import processes
from tools import compare_graphs

from absl.testing import absltest, parameterized

_NODE = 'name: "a"\nop: "Add"\ndevice: "/cpu:0"\n'


def _folder(test, graphs):
  folder = test.create_tempdir().full_path
  for name, nodes in graphs.items():
    with gzip.open(os.path.join(folder, f"{name}.gz"), "wt") as file:
      file.write("\0".join(nodes))
  return folder


def _write(folder, name):
  """Writes a graph as `compare_graphs` does for each version."""
  done = processes.run(
    *("-m", "tools.compare_graphs", "--write", folder, "--only", name),
    env=processes.environment(PYTHONHASHSEED="0"),
  )
  done.check_returncode()


class CompareGraphsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("same", [_NODE], ""),
    (
      "device",
      [_NODE.replace("cpu:0", "cpu:1")],
      'now 1; number 0 (name: "a"): -device: "/cpu:0", +device: "/cpu:1"',
    ),
    (
      "another_node",
      [_NODE, 'name: "b"\n'],
      'now 2; number 1 (name: "b"): +name: "b"',
    ),
    ("no_graph", [], 'now 0; number 0 (name: "a"): -name: "a", -op: "Add",'),
  )
  def test_first_difference(self, new, expected):
    found = compare_graphs.first_difference([_NODE], new)
    self.assertIn(expected, found)
    self.assertEqual(expected == "", found == "")

  def test_graphs_that_differ_are_named(self):
    old = _folder(self, {"a": [_NODE], "b": [_NODE], "gone": [_NODE]})
    new = _folder(self, {"a": [_NODE], "b": [_NODE, _NODE], "made": [_NODE]})
    self.assertEqual(
      ["b", "gone", "made"], [*compare_graphs.differences(old, new)]
    )

  def test_a_commit_that_does_not_exist(self):
    done = processes.run("-m", "tools.compare_graphs", "no_such_commit")
    self.assertEqual(2, done.returncode)
    self.assertNotIn("Traceback", done.stderr)
    self.assertIn("failed: git", done.stderr)

  @tiers.slow
  def test_a_graph_is_the_same_each_time(self):
    names = ["mlp_sgd-hybrid-train", "mlp_sgd-ring-train"]
    first, second = _folder(self, {}), _folder(self, {})
    for folder in (first, second):
      _write(folder, names[0])
    self.assertEqual([f"{names[0]}.gz"], os.listdir(first))
    self.assertEmpty(compare_graphs.differences(first, second))
    _write(second, names[1])
    found = compare_graphs.differences(first, second)
    self.assertEqual([names[1]], [*found])
    self.assertRegex(found[names[1]], r"0 nodes, now \d{3,};")

  @tiers.slow
  def test_an_error_ends_it(self):
    with self.assertRaises(subprocess.CalledProcessError):
      _write(os.path.join(_folder(self, {}), "no_such"), "mlp_sgd-ring-train")


if __name__ == "__main__":
  absltest.main()
