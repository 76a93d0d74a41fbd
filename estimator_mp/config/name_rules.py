"""Name rules: pairs of a regular expression for names, and a value for these.

    placement=[("layer_[0-5]/", 0), (".*", 1)]
    split=[("ffn/kernel", 1), ("table", "mod")]
    batch_axis=[("features/mask", None)]

JSON has them as lists, and instances of options as tuples.
"""

import re
from collections.abc import Callable
from typing import Any


def checked(
  name: str,
  rules: Any,
  is_right: Callable[[Any], bool],
  words: str,
  example: str,
) -> tuple[tuple[str, Any], ...]:
  """Returns rules as tuples, if they are right.

  Args:
    name: The option.
    rules: Its value.
    is_right: Whether something is right in the second place.
    words: A description of such things, for the message.
    example: A rule.

  Raises:
    ValueError: If a rule is no pair, or its expression is malformed.
  """
  for rule in rules if isinstance(rules, list | tuple) else [rules]:
    is_pair = isinstance(rule, list | tuple) and len(rule) == 2
    if not (is_pair and isinstance(rule[0], str) and is_right(rule[1])):
      raise ValueError(
        f"{name} has {rule!r}, which is not a pair of an expression and "
        f"{words}; write pairs such as {example}"
      )
    check_expression(name, rule, rule[0])
  return tuple((expression, other) for expression, other in rules)


def check_expression(name: str, value: Any, expression: str) -> None:
  """Raises if a regular expression is malformed.

  Args:
    name: The option that has it.
    value: The entry of the option: a rule, or the expression itself.
    expression: The expression.

  Raises:
    ValueError: If it is malformed.
  """
  try:
    re.compile(expression)
  except re.error as error:
    raise ValueError(
      f"{name} has {value!r}, whose regular expression is malformed ({error}); "
      "use the syntax of Python's re module"
    ) from error
