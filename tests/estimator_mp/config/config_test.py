"""ShardingConfig as dicts, JSON and flags; which split rule counts."""

import copy
import dataclasses
import json
import os
import pickle
from types import MappingProxyType
from typing import Any

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.config import (
  placement,
  placement_file,
  sharding_options,
  split_rules,
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
      memory_limit="500MB", bucket_bytes="0", plain_initial_bytes="1.5 KiB"
    )
    self.assertEqual(config.memory_limit, 500_000_000)
    self.assertEqual(config.bucket_bytes, 0)
    self.assertEqual(config.plain_initial_bytes, 1536)
    self.assertEqual(config.to_dict()["memory_limit"], 500_000_000)
    self.assertEqual(
      estimator_mp.ShardingConfig.from_json('{"memory_limit": "500MB"}'),
      estimator_mp.ShardingConfig(memory_limit=500_000_000),
    )

  def test_a_path_is_read_at_once(self):
    path = write_placement(self.create_tempdir().full_path)
    config = estimator_mp.ShardingConfig("stage:2", placement=path)
    self.assertEqual(config.placement, PLACEMENT)

  @parameterized.parameters(
    (
      {"memory_limt": 5},
      "no field 'memory_limt'.* as 5; did you mean 'memory_limit'?.* mesh",
    ),
    ({"xyz": [1]}, r"no field 'xyz', .* given as \[1\]; its fields are mesh, "),
    (["stage:2"], r"\['stage:2'\]; give a dict such as"),
    ({"placement": {"stages": []}}, r"Placement.to_dict\(\): it has no 'ops'"),
  )
  def test_a_wrong_dict(self, values, message):
    with self.assertRaisesRegex(ValueError, message):
      estimator_mp.ShardingConfig.from_dict(values)

  def test_what_is_no_json(self):
    with self.assertRaisesRegex(
      ValueError, "JSON .Expecting value: line 1 .* with 'mesh=stage:2'"
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
      "--mesh=stage:2,model:2",
      "--devices=cpu:0, cpu:3,cpu:1,cpu:2",
      '--placement=[["^a/", 1], [".*", 0]]',
      '--split=[["ffn/kernel", 1], ["table", "whole"], [".*", null]]',
      "--gathers=error",
      "--plain_initial_bytes=1000",
      "--noverify_placement",
      "--export_shards",
    )
    self.assertEqual(
      config,
      estimator_mp.ShardingConfig(
        "stage:2,model:2",
        ("cpu:0", "cpu:3", "cpu:1", "cpu:2"),
        (("^a/", 1), (".*", 0)),
        split=(("ffn/kernel", 1), ("table", "whole"), (".*", None)),
        gathers="error",
        plain_initial_bytes=1000,
        verify_placement=False,
        export_shards=True,
      ),
    )
    self.assertEqual(parse("--split=auto").split, "auto")

  def test_amounts_of_bytes(self):
    config = parse("--memory_limit=5000000", "--plain_initial_bytes=1MiB")
    self.assertEqual(config.memory_limit, 5_000_000)
    self.assertEqual(config.plain_initial_bytes, 2**20)
    values = flags.FlagValues()
    estimator_mp.define_sharding_flags(values, memory_limit="2GB")
    self.assertEqual(values["bucket_bytes"].default_as_str, "'64KiB'")
    self.assertEqual(values["memory_limit"].value, 2_000_000_000)
    with self.assertRaisesRegex(flags.Error, "memory_limit=4XB: .* 256MiB"):
      values(["program", "--memory_limit=4XB"])

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
    with self.assertRaisesRegex(flags.Error, "schedule=none: .* gpipe, 1f1b"):
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
    with self.assertRaisesRegex(ValueError, "no flags here; call .*define_sh"):
      estimator_mp.ShardingConfig.from_flags(flags.FlagValues())

  def test_a_default_of_no_field(self):
    with self.assertRaisesRegex(
      ValueError, "no field 'meshes', .* did you mean 'mesh'?"
    ):
      parse(meshes="stage:2")

  def test_rules_that_are_no_json(self):
    with self.assertRaisesRegex(
      flags.Error, r'--placement=\[\["a", 0\]: is not valid JSON \(Expecting '
    ):
      parse('--placement=[["a", 0]')


_RULES = (("ffn/", 1), ("^table", "mod"), ("kernel$", 0), ("bias", None))


def _options(split, mesh="model:2"):
  return sharding_options.ShardingOptions(mesh, split=split)


class SplitTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("no_axis", "stage:2"), ("model", "model:3"), ("data", "data:2")
  )
  def test_auto_is_for_every_mesh(self, mesh):
    self.assertEqual(sharding_options.ShardingOptions(mesh).split, "auto")

  @parameterized.named_parameters(
    ("model", "model:2"),
    ("one_position", "model:1"),
    ("all_axes", "data:2,model:2,stage:2"),
  )
  def test_rules_over_a_model_axis_become_tuples(self, mesh):
    split = [["ffn/kernel", 1], *([word, word] for word in split_rules.TABLES)]
    self.assertEqual(
      _options([*split, ("x", None)], mesh).split,
      (*(tuple(rule) for rule in split), ("x", None)),
    )

  def test_tables_are_split_over_a_data_axis_where_no_model_axis_is(self):
    rules = (("a", "mod"), ("b", "div"), ("c", "columns"), ("d", "whole"))
    self.assertEqual(_options(rules, "data:4,stage:2").split, rules)
    rules = ((".*", None),)
    self.assertEqual(_options(rules, "data:4").split, rules)


class RuleForTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("first_of_two", "ffn/kernel", ("ffn/", 1)),
    ("second", "layer/kernel", ("kernel$", 0)),
    ("anchored", "my/table", None),
    ("never", "layer/bias", ("bias", None)),
  )
  def test_the_first_that_is_found_counts(self, name, rule):
    self.assertEqual(split_rules.rule_for(_RULES, name), rule)


if __name__ == "__main__":
  absltest.main()
