"""ShardingConfig: its fields, as dicts, as JSON and as flags."""

import contextlib
import copy
import dataclasses
import io
import json
import os
import pickle
from types import MappingProxyType
from typing import Any
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import (
  commands,
  compare_flags,
  inspect_flags,
  train_flags,
)
from estimator_mp.config import (
  options,
  placement,
  placement_file,
  sharding_options,
)
from estimator_mp.session import session_config

from absl import flags
from absl.testing import absltest, parameterized

PLACEMENT = toolbox.Placement(
  stages=tuple(
    toolbox.StagePlacement(k, f"/device:CPU:{k}", (f"dense_{k}",), 12, 96)
    for k in range(2)
  ),
  ops=MappingProxyType({"dense_0/kernel": 0, "dense_1/kernel": 1}),
  transfers=(
    placement.Transfer(
      "dense_0/Relu:0", "/device:CPU:0", "/device:CPU:1", 2048
    ),
  ),
)
CONFIGS: tuple[tuple[str, dict[str, Any]], ...] = (
  ("default", {}),
  ("devices", {"mesh": "stage:2", "devices": ("cpu:3", "/cpu:1")}),
  ("rules", {"mesh": "stage:2", "placement": (("^a/", 1), (".*", 0))}),
  ("placement", {"mesh": "stage:2", "placement": PLACEMENT}),
  ("limit", {"memory_limit": 16_000_000, "verify_placement": False}),
  (
    "split",
    {
      "mesh": "data:2,model:2",
      "split": (("^ffn/", 1), ("^table$", "mod"), (".*", None)),
      "gathers": "error",
      "initial_values": "by_shard",
      "plain_initial_bytes": 0,
      "export_shards": True,
    },
  ),
)


def parse(*arguments, **defaults):
  """Returns the configuration that a program's command line describes."""
  values = flags.FlagValues()
  estimator_mp.define_sharding_flags(values, **defaults)
  values(["program", *arguments])
  return estimator_mp.ShardingConfig.from_flags(values)


def write_placement(folder, stages=2):
  mesh = estimator_mp.Mesh.create(f"stage:{stages}")
  placement_file.save_placement(PLACEMENT, folder, mesh)
  return os.path.join(folder, "placement.json")


class ShardingConfigTest(parameterized.TestCase):
  def test_makes_its_mesh(self):
    config = estimator_mp.ShardingConfig("stage:2", ["/cpu:1", "/cpu:4"])
    self.assertEqual(
      config.create_mesh().devices, ("/device:CPU:1", "/device:CPU:4")
    )
    self.assertEqual(config.devices, ("/cpu:1", "/cpu:4"))

  @parameterized.named_parameters(*CONFIGS)
  def test_dicts_and_json_say_all_of_it(self, fields):
    config = estimator_mp.ShardingConfig(**fields)
    names = [field.name for field in dataclasses.fields(config)]
    self.assertCountEqual(config.to_dict(), names)
    again = estimator_mp.ShardingConfig.from_dict(config.to_dict())
    self.assertEqual(again, config)
    again = estimator_mp.ShardingConfig.from_json(config.to_json())
    self.assertEqual(again, config)
    self.assertEqual(json.loads(config.to_json()), config.to_dict())
    self.assertEqual(hash(again), hash(config))

  @parameterized.named_parameters(*CONFIGS)
  def test_estimators_can_copy_and_pickle_it(self, fields):
    """A RunConfig of a sharded run has it, and each Estimator copies that."""
    config = estimator_mp.ShardingConfig(**fields)
    run_config = estimator_mp.run_config(config, "somewhere")
    for copied in (
      copy.deepcopy(run_config),
      pickle.loads(pickle.dumps(run_config)),
    ):
      of_run = session_config.sharded_run_of(copied)
      self.assertEqual(of_run.sharding, config)

  def test_what_a_dict_leaves_out_has_its_default(self):
    config = estimator_mp.ShardingConfig.from_dict({"mesh": "stage:2"})
    self.assertEqual(config, estimator_mp.ShardingConfig("stage:2"))

  def test_amounts_of_bytes_are_integers_or_texts(self):
    config = estimator_mp.ShardingConfig(
      memory_limit="500MB", bucket_bytes="0", chunk_bytes="1.5 KiB"
    )
    self.assertEqual(config.memory_limit, 500_000_000)
    self.assertEqual(config.bucket_bytes, 0)
    self.assertEqual(config.chunk_bytes, 1536)
    self.assertEqual(config.to_dict()["memory_limit"], 500_000_000)
    self.assertEqual(
      estimator_mp.ShardingConfig.from_json('{"memory_limit": "500MB"}'),
      estimator_mp.ShardingConfig(memory_limit=500_000_000),
    )

  def test_a_path_is_read_at_once(self):
    path = write_placement(self.create_tempdir().full_path)
    config = estimator_mp.ShardingConfig("stage:2", placement=path)
    self.assertEqual(config.placement, PLACEMENT)

  @parameterized.named_parameters(
    (
      "close_field",
      {"memory_limt": 5},
      "ShardingConfig has no field 'memory_limt', which is given as 5; did you "
      "mean 'memory_limit'? its fields are mesh, devices, placement, ",
    ),
    (
      "unknown_field",
      {"xyz": [1]},
      "ShardingConfig has no field 'xyz', which is given as [1]; its fields "
      "are mesh, devices, placement, ",
    ),
    (
      "no_dict",
      ["stage:2"],
      "ShardingConfig cannot be made from ['stage:2']; give a dict such as "
      '{"mesh": "stage:2"}',
    ),
    (
      "mesh_is_a_number",
      {"mesh": 3},
      "mesh=3 has the wrong type; give a string",
    ),
    (
      "devices_are_one_text",
      {"devices": "cpu:0,cpu:1"},
      "devices='cpu:0,cpu:1' has the wrong type; give a list of strings",
    ),
    (
      "limit_has_an_unknown_unit",
      {"memory_limit": "4XB"},
      "memory_limit='4XB' is not an amount of bytes; write it like 256MiB, 16GB"
      " or 1000000",
    ),
    (
      "limit_is_too_small",
      {"memory_limit": "0GB"},
      "memory_limit='0GB' is too small; use 1 or more",
    ),
    (
      "limit_is_true",
      {"memory_limit": True},
      "memory_limit=True has the wrong type; give an amount of bytes or None",
    ),
    (
      "verify_is_a_number",
      {"verify_placement": 1},
      "verify_placement=1 has the wrong type; give true or false",
    ),
    (
      "placement_is_half",
      {"placement": {"stages": []}},
      "placement is not a dict of Placement.to_dict(): it has no 'ops'; write "
      "it again",
    ),
  )
  def test_a_wrong_dict(self, values, message):
    with self.assertRaises(ValueError) as caught:
      estimator_mp.ShardingConfig.from_dict(values)
    self.assertStartsWith(str(caught.exception), message)

  def test_what_is_no_json(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "the text is not valid JSON (Expecting value: line 1 column 1 (char 0)); "
      "it begins with 'mesh=stage:2'",
    ):
      estimator_mp.ShardingConfig.from_json("mesh=stage:2")


class FlagsTest(parameterized.TestCase):
  def test_every_field_has_a_flag_with_its_default(self):
    self.assertEqual(parse(), estimator_mp.ShardingConfig())
    values = flags.FlagValues()
    estimator_mp.define_sharding_flags(values)
    for field in dataclasses.fields(estimator_mp.ShardingConfig):
      self.assertIn(field.name, values)
      self.assertNotEmpty(values[field.name].help)

  def test_values(self):
    config = parse(
      "--mesh=stage:2",
      "--devices=cpu:0, cpu:3",
      '--placement=[["^a/", 1], [".*", 0]]',
      "--noverify_placement",
    )
    self.assertEqual(
      config,
      estimator_mp.ShardingConfig(
        "stage:2",
        ("cpu:0", "cpu:3"),
        (("^a/", 1), (".*", 0)),
        verify_placement=False,
      ),
    )

  def test_amounts_of_bytes(self):
    config = parse("--memory_limit=5000000", "--plain_initial_bytes=1MiB")
    self.assertEqual(config.memory_limit, 5_000_000)
    self.assertEqual(config.plain_initial_bytes, 2**20)
    values = flags.FlagValues()
    estimator_mp.define_sharding_flags(values, logical_gpu_bytes="2GB")
    self.assertEqual(values["bucket_bytes"].default_as_str, "'64KiB'")
    self.assertEqual(values["logical_gpu_bytes"].value, 2_000_000_000)
    with self.assertRaisesRegex(
      flags.Error,
      "memory_limit=4XB: is not an amount of bytes; write it like 256MiB, 16GB "
      "or 1000000",
    ):
      values(["program", "--memory_limit=4XB"])

  def test_values_of_the_model_axis(self):
    config = parse(
      "--mesh=stage:2,model:3",
      '--split=[["ffn/kernel", 1], ["table", "whole"], [".*", null]]',
      "--gathers=error",
      "--initial_values=by_shard",
      "--plain_initial_bytes=1000",
      "--export_shards",
    )
    self.assertEqual(
      config,
      estimator_mp.ShardingConfig(
        "stage:2,model:3",
        split=(("ffn/kernel", 1), ("table", "whole"), (".*", None)),
        gathers="error",
        initial_values="by_shard",
        plain_initial_bytes=1000,
        export_shards=True,
      ),
    )
    self.assertEqual(parse("--split=auto").split, "auto")

  def test_a_path_of_a_placement(self):
    path = write_placement(self.create_tempdir().full_path)
    config = parse(f"--placement={path}", "--mesh=stage:2")
    self.assertEqual(config.placement, PLACEMENT)

  def test_some_flags_with_other_defaults(self):
    config = parse(only=("mesh",), mesh="stage:4")
    self.assertEqual(config, estimator_mp.ShardingConfig("stage:4"))
    with self.assertRaises(flags.UnrecognizedFlagError):
      parse("--devices=cpu:0", only=("mesh",))

  def test_a_flag_with_fewer_choices(self):
    values = flags.FlagValues()
    estimator_mp.define_sharding_flags(
      values, choices={"schedule": ("gpipe", "1f1b")}
    )
    with self.assertRaisesRegex(
      flags.Error, "schedule=none: is not known; use one of gpipe, 1f1b"
    ):
      values(["program", "--schedule=none"])

  @parameterized.named_parameters(
    ("no_field", {"order": ("a",)}, "ShardingConfig has no field 'order'"),
    (
      "no_choice",
      {"schedule": ("1f1b", "2f2b")},
      r"schedule cannot be \('2f2b',\); it is one of none, gpipe, 1f1b, inter",
    ),
  )
  def test_choices_that_a_field_does_not_have(self, choices, message):
    with self.assertRaisesRegex(ValueError, message):
      estimator_mp.define_sharding_flags(flags.FlagValues(), choices=choices)

  def test_a_programs_own_flags_stay_its_own(self):
    values = flags.FlagValues()
    flags.DEFINE_string("aggregation", "mine", "", flag_values=values)
    estimator_mp.define_sharding_flags(values, only=("mesh",))
    values(["program"])
    self.assertEqual(
      estimator_mp.ShardingConfig.from_flags(values),
      estimator_mp.ShardingConfig(),
    )

  def test_flags_that_were_not_defined(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "ShardingConfig has no flags here; call "
      "estimator_mp.define_sharding_flags() before the flags are parsed",
    ):
      estimator_mp.ShardingConfig.from_flags(flags.FlagValues())

  def test_a_default_of_no_field(self):
    with self.assertRaisesRegex(
      ValueError, "no field 'meshes', .* did you mean 'mesh'?"
    ):
      parse(meshes="stage:2")

  def test_rules_that_are_no_json(self):
    with self.assertRaisesRegex(
      ValueError,
      r'--placement=\[\["a", 0\] is not valid JSON \(Expecting .*\); put '
      "strings in double quotes and close all brackets",
    ):
      parse('--placement=[["a", 0]')


@dataclasses.dataclass(frozen=True)
class Options:
  """A dataclass of options of each kind."""

  count: int = options.option(1, "How many.", minimum=1)
  word: str = options.option("a", "Which.", choices=("a", "b"))
  rate: float = options.option(0.5, "How fast.")

  def __post_init__(self):
    options.check(self)


@dataclasses.dataclass(frozen=True)
class MoreOptions(sharding_options.ShardingOptions):
  """The options of sharding, and a new one: nothing else is written for it."""

  patience: int = options.option(7, "How long to wait.", minimum=1)


@dataclasses.dataclass(frozen=True)
class MoreConfig(estimator_mp.ShardingConfig, MoreOptions):
  """The configuration of these options."""


class NewOptionTest(parameterized.TestCase):
  """A new option is one field of ShardingOptions."""

  def setUp(self):
    super().setUp()
    self.enter_context(
      mock.patch.object(sharding_options, "ShardingOptions", MoreOptions)
    )

  def test_dicts_json_and_checks_have_it(self):
    config = MoreConfig.from_dict({"mesh": "stage:2", "patience": 9})
    self.assertEqual(config.patience, 9)
    self.assertEqual(config.to_dict()["patience"], 9)
    self.assertEqual(MoreConfig.from_json(config.to_json()), config)
    self.assertEqual(MoreConfig.of(MoreOptions(patience=8)).patience, 8)
    with self.assertRaisesRegex(ValueError, "patience=0 is too small; use 1 "):
      MoreConfig(patience=0)

  @parameterized.named_parameters(
    ("train", train_flags.parse),
    ("trace", train_flags.parse_trace),
    ("inspect", inspect_flags.parse),
    ("compare", compare_flags.parse),
  )
  def test_commands_have_it(self, parse):
    self.assertEqual(parse(["it", "--patience=9"]).sharding.patience, 9)
    with self.assertRaisesRegex(
      commands.FlagsError, "--patience=0 is too small; use 1 or more"
    ):
      parse(["it", "--patience=0"])
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      self.assertRaises(SystemExit),
    ):
      parse(["it", "--help"])
    self.assertIn(
      "  --patience=7\n      How long to wait.\n", output.getvalue()
    )


class OptionsTest(parameterized.TestCase):
  def test_one_line_for_a_new_option(self):
    values = flags.FlagValues()
    options.define_flags(Options, values)
    values(["program", "--count=3", "--word=b", "--rate=2"])
    self.assertEqual(options.from_flags(Options, values), Options(3, "b", 2.0))

  @parameterized.named_parameters(
    ("small", {"count": 0}, "count=0 is too small; use 1 or more"),
    ("kind", {"count": 1.5}, "count=1.5 has the wrong type; give an integer"),
    ("word", {"word": "c"}, "word='c' is not known; use one of a, b"),
    ("rate", {"rate": "x"}, "rate='x' has the wrong type; give a number"),
  )
  def test_wrong_values(self, values, message):
    with self.assertRaises(ValueError) as caught:
      Options(**values)
    self.assertStartsWith(str(caught.exception), message)


if __name__ == "__main__":
  absltest.main()
