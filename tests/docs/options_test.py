"""docs/options.md is what the options say of themselves.

`python -m tests.docs.options_test --write` writes it again.
"""

import contextlib
import io
import itertools
import os
import pathlib
import re
import sys

import estimator_mp
from estimator_mp.cli import compare_flags, plan_flags, train_flags

from absl import flags
from absl.testing import absltest

_PAGE = pathlib.Path(
  os.path.dirname(__file__), "..", "..", "docs", "options.md"
)
_COMMANDS = {
  "train": train_flags.TRAIN.parse,
  "trace": train_flags.TRACE.parse,
  "plan": plan_flags.COMMAND.parse,
  "compare": compare_flags.COMMAND.parse,
}


def _flags_of_commands():
  """Returns the names of the flags that each command's help has."""
  found = {}
  for command, parse in _COMMANDS.items():
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      contextlib.suppress(SystemExit),
    ):
      parse([command, "--help"])
    found[command] = set(re.findall(r"^  --(\w+)", output.getvalue(), re.M))
  return found


def _rows():
  values = flags.FlagValues()
  estimator_mp.define_sharding_flags(values)
  commands = _flags_of_commands()
  for flag in itertools.chain(*values.flags_by_module_dict().values()):
    default = (flag.default_as_str or "").strip("'")
    default = default and f"`{default}`"
    names = [name for name, known in commands.items() if flag.name in known]
    text = flag.help.replace("|", "\\|")
    yield f"| `{flag.name}` | {default} | {', '.join(names)} | {text} |"


def _with_table(page: str) -> str:
  """Returns a page with the rows of its table written anew."""
  head, line, _ = page.partition("| --- | --- | --- | --- |\n")
  return head + line + "".join(f"{row}\n" for row in _rows())


class OptionsTest(absltest.TestCase):
  def test_the_page_has_what_the_options_say(self):
    page = _PAGE.read_text(encoding="utf-8")
    self.assertEqual(page, _with_table(page), __doc__)


if __name__ == "__main__":
  if "--write" in sys.argv:
    _PAGE.write_text(
      _with_table(_PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
  else:
    absltest.main()
