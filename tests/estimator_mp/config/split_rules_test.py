"""Rules that split variables, as data: which are right, which one counts."""

from estimator_mp.config import sharding_options, split_rules

from absl.testing import absltest, parameterized

_PAIR = 'which .* dimension from 0, one of "mod", "div", .*; write pairs'
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

  @parameterized.parameters(
    ("Auto", "split='Auto' is unknown; .*auto"),
    ({"a": 1}, "split={'a': 1} is unknown; .*auto"),
    ((), r"split=\(\) has no rule; .*None\) .*auto"),
    (("a", 1), f"split has 'a', {_PAIR}"),
    ([("a", -1)], rf"split has \('a', -1\), {_PAIR}"),
    ([("a", True)], rf"split has \('a', True\), {_PAIR}"),
    ([("a", "rows")], rf"split has \('a', 'rows'\), {_PAIR}"),
    ([(3, 1)], rf"split has \(3, 1\), {_PAIR}"),
    ([("a", 0), ("(", 1)], r"split has '\(', .*expression: .* position 0$"),
  )
  def test_what_is_wrong(self, split, message):
    with self.assertRaisesRegex(ValueError, f"^{message}"):
      _options(split)

  @parameterized.parameters(
    ("stage:2", ("a", "mod"), "'stage:2,model:2', or split=auto"),
    ("data:2", ("a", 1), '"mod", "div", "columns", .* \'data:2,model:2\''),
  )
  def test_an_axis_that_does_not_exist(self, mesh, rule, fix):
    with self.assertRaises(ValueError) as caught:
      _options([rule], mesh)
    message = str(caught.exception)
    self.assertStartsWith(message, f"split rule {rule!r} is for an axis that")
    self.assertRegex(message, f"mesh '{mesh}' has no model axis.*{fix}$")


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
