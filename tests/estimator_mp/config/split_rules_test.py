"""Rules that split variables, as data: which are right, which one counts."""

from estimator_mp.config import sharding_options, split_rules

from absl.testing import absltest, parameterized

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
