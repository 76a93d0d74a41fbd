"""Machines: those that come with the package, and files with a mistake."""

import dataclasses

from estimator_mp.machines import machine as machine_lib

from absl.testing import absltest, parameterized

_FILE = """
name = "ours"

[device]
kind = "GPU"
memory_bytes = 16e9
memory_bandwidth = 900e9
launch_seconds = 5e-6

[device.flops]
float32 = 15e12
float16 = 125e12

[[links]]
level = "host"
devices = 8
bandwidth = 150e9
latency = 3e-6

[[links]]
level = "cluster"
devices = 64
bandwidth = 12e9
latency = 10e-6
shared = 2
"""


class PresetsTest(parameterized.TestCase):
  @parameterized.parameters(*machine_lib.names())
  def test_is_whole(self, name):
    machine = machine_lib.load(name)
    self.assertNotEmpty(machine.source)
    self.assertNotEmpty(machine.links)
    self.assertEqual(machine_lib.parse(machine_lib.to_toml(machine)), machine)

  def test_names(self):
    names = machine_lib.names()
    expected = [
      "v100",
      "p100",
      "a100",
      "h100",
      "h200",
      "tpu_v2",
      "tpu_v3",
      "cpu",
    ]
    self.assertContainsSubset(expected, names)
    large = [x for x in names if machine_lib.load(x).links[-1].devices >= 4096]
    # No network of these is known.
    self.assertCountEqual({*names} - {*large}, ["p100_pcie", "p40"])


class MachineTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.machine = machine_lib.parse(_FILE)

  def test_a_device_computes_or_reads(self):
    device = dataclasses.replace(
      self.machine.device, efficiency=0.5, strided_bandwidth=1e9
    )
    self.assertAlmostEqual(device.seconds(15e12, 9e9), 2.000005)
    self.assertAlmostEqual(device.seconds(125e12, 0.0, "float16"), 2.000005)
    self.assertAlmostEqual(device.seconds(15e12, 0.0, "int32"), 2.000005)
    self.assertAlmostEqual(device.seconds(1.0, 9e9, launches=2), 0.01001)
    self.assertAlmostEqual(
      device.seconds(1.0, 9e9, strided_bytes=1e9), 1.010005
    )

  @parameterized.parameters(
    (0, 1, "host"), (8, 15, "host"), (7, 8, "cluster"), (0, 63, "cluster")
  )
  def test_link(self, first, last, level):
    self.assertEqual(self.machine.link(first, last).level, level)
    self.assertEqual(self.machine.link(last, first).level, level)

  def test_seconds(self):
    host, cluster = self.machine.links
    self.assertAlmostEqual(host.seconds(150e6), 1003e-6)
    self.assertAlmostEqual(host.seconds(150e6, senders=8), 1003e-6)
    self.assertAlmostEqual(cluster.seconds(12e6), 1010e-6)
    self.assertAlmostEqual(cluster.seconds(12e6, senders=8), 2010e-6)

  def test_no_link(self):
    with self.assertRaisesRegex(ValueError, r" 0 and 64: .* devices = 65 or m"):
      self.machine.link(0, 64)

  @parameterized.parameters(
    ('name = "ours"', "", "the file has no 'name'"),
    ("[device]", "[devices]", "the file has an unknown key 'devices'; use dev"),
    ("memory_bytes", "memory", "device has an unknown key 'memory'; use memo"),
    ("latency", "lag", "links[0] has an unknown key 'lag'; use level, devices"),
    ("float32 =", "float64 =", "device.flops has no 'float32'"),
    (
      "= 15e12",
      "= -15e12",
      "device.flops.float32 is -15000000000000.0; give a",
    ),
    ("= 900e9", "= 0", "device.memory_bandwidth is 0.0; give a positive numb"),
    ("= 16e9", "= inf", "device.memory_bytes is inf; give a positive number"),
    ("= 5e-6", "= nan", "device.launch_seconds is nan; give a positive number"),
    ("= 5e-6", "= 5e-6\ncores = 0.5", "cores is 0.5, which is not of "),
    ("= 5e-6", "= 5e-6\ncores = -1", "device.cores is -1; give a positive n"),
    ("= 5e-6", '= "5 us"', "launch_seconds is '5 us', which is not of type fl"),
    ("= 8", "= 8.0", "links[0].devices is 8.0, which is not of type int"),
    ("= 8", "= 64", "links[1].devices is 64, but a link joins more devices th"),
    ("= 8", "= 1", "links[0].devices is 1, but a link joins more devices than"),
    ("= 150e9", "= 0.0", "links[0].bandwidth is 0.0; give a positive number"),
    (
      "shared = 2",
      "shared = 0",
      "links[1].shared is 0; give a positive number",
    ),
    ("shared = 2", "overlaps = 1", "overlaps is 1, which is not of type bool"),
    ("[[links]]", "[links]", " (at line 20, column 8)"),
    ("[[links]]", "[[link]]", "the file has an unknown key 'link'; use links"),
    ("= 16e9", "= 16 GB", " (at line 6, column 19)"),
  )
  def test_a_mistake_is_one_line(self, text, instead, said):
    path = self.create_tempfile(
      content=_FILE.replace(text, instead, 1)
    ).full_path
    with self.assertRaises(ValueError) as raised:
      machine_lib.load(path)
    self.assertIn(said, str(raised.exception))
    self.assertStartsWith(str(raised.exception), f"machine={path!r}: ")
    self.assertLen(str(raised.exception).splitlines(), 1)

  def test_links_that_are_no_list(self):
    text = _FILE.partition("[[links]]")[0]
    for links in ("[links]", "[links.host]\ndevices = 8"):
      with self.assertRaisesRegex(ValueError, r"begin each .* \[\[links\]\]$"):
        machine_lib.parse(text + links)

  @parameterized.parameters(
    ("v1000", "is unknown; give the path of a TOML file, or one of a100, "),
    (
      "none.toml",
      "cannot be read (No such file or directory); give the path of",
    ),
    (".", "cannot be read (Is a directory); give the path of a TOML file, or"),
  )
  def test_no_file(self, name, said):
    with self.assertRaises(ValueError) as raised:
      machine_lib.load(name)
    self.assertStartsWith(str(raised.exception), f"machine={name!r} {said}")


if __name__ == "__main__":
  absltest.main()
