"""What a user says of variables that are updated from the batch."""

import re
from typing import Any, TypeAlias

# An expression for the names of variables, and how what is written to them is
# merged: one of `WORDS`.
StateUpdate: TypeAlias = tuple[str, str]
WORDS = ("mean", "sum", "concat", "first")


def check_state_updates(rules: Any) -> tuple[StateUpdate, ...]:
  """Returns rules for updates of variables as tuples, if they are well-formed.

  Args:
    rules: Pairs of a regular expression and one of `WORDS`.

  Raises:
    ValueError: If they are not.
  """
  for rule in rules:
    is_pair = isinstance(rule, list | tuple) and len(rule) == 2
    if not is_pair or not isinstance(rule[0], str) or rule[1] not in WORDS:
      raise ValueError(
        f"state_updates has {rule!r}, which is no pair of an expression and "
        f'one of {", ".join(WORDS)}; write pairs such as ("centers", "concat")'
      )
    try:
      re.compile(rule[0])
    except re.error as error:
      raise ValueError(
        f"state_updates has {rule[0]!r}, which is no regular expression: "
        f"{error}"
      ) from error
  return tuple((expression, word) for expression, word in rules)
