"""Rules that split variables, as data: which are right, which one counts."""

from estimator_mp.config import sharding_options, split_rules

from absl.testing import absltest, parameterized

_PAIR = (
  "which is not a pair of an expression and a dimension from 0, one of "
  '"mod", "div", "columns", "whole", or None; write pairs such as '
  '("ffn/kernel", 1)'
)
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

  @parameterized.named_parameters(
    (
      "word",
      "Auto",
      "split='Auto' is unknown; use \"auto\", or rules such as "
      '[("ffn/kernel", 1), ("table", "mod")]',
    ),
    (
      "dict",
      {"a": 1},
      "split={'a': 1} is unknown; use \"auto\", or rules such as "
      '[("ffn/kernel", 1), ("table", "mod")]',
    ),
    (
      "empty",
      (),
      'split=() has no rule; give at least one, such as (".*", None) to keep '
      'all variables whole, or split="auto"',
    ),
    ("no_list", ("a", 1), f"split has 'a', {_PAIR}"),
    ("negative", [("a", -1)], f"split has ('a', -1), {_PAIR}"),
    ("bool", [("a", True)], f"split has ('a', True), {_PAIR}"),
    ("unknown_word", [("a", "rows")], f"split has ('a', 'rows'), {_PAIR}"),
    ("no_text", [(3, 1)], f"split has (3, 1), {_PAIR}"),
    (
      "expression",
      [("a", 0), ("(", 1)],
      "split has '(', which is not a valid regular expression: missing ), "
      "unterminated subpattern at position 0",
    ),
  )
  def test_what_is_wrong(self, split, message):
    with self.assertRaisesWithLiteralMatch(ValueError, message):
      _options(split)

  @parameterized.named_parameters(
    (
      "neither",
      "stage:2",
      ("a", "mod"),
      "split rule ('a', 'mod') is for an axis that does not exist: mesh "
      "'stage:2' has no model axis to split variables over, and no data axis "
      "to split tables over; use a mesh such as 'stage:2,model:2', or "
      "split=auto",
    ),
    (
      "dimension_over_replicas",
      "data:2",
      ("a", 1),
      "split rule ('a', 1) is for an axis that does not exist: mesh 'data:2' "
      "has no model axis, and over the data axis only tables are split, by "
      '"mod", "div", "columns", "whole"; use one of them, or a mesh such as '
      "'data:2,model:2'",
    ),
  )
  def test_an_axis_that_does_not_exist(self, mesh, rule, message):
    with self.assertRaisesWithLiteralMatch(ValueError, message):
      _options([rule], mesh)


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
