"""Completion: what shells offer after the command's words."""

import subprocess

from estimator_mp.cli import completion, main
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized

# Bash calls what was registered for the command, with these variables.
_ASK = """
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p estimator-mp | sed -E 's/.*-F ([^ ]+).*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


class CompletionTest(parameterized.TestCase):
  @parameterized.parameters(
    ("ins", ["inspect"]),
    ("tra", ["trace", "traffic", "train"]),
    ("c", ["compare", "completion"]),
    ("train --mes", ["--mesh"]),
    ("train --aggregation r", ["ring"]),
    ("train --noprefetch", ["--noprefetch_inputs"]),
    ("predict --mesh", []),
    ("completion z", ["zsh"]),
  )
  def test_bash_offers(self, words, expected):
    code, script, _ = command_runs.run(main.main, "completion", "bash")
    self.assertEqual(code, 0)
    asked = subprocess.run(
      ["bash", "-c", _ASK.format(script=script, words=f"estimator-mp {words}")],
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(sorted(asked.stdout.split()), expected, asked.stderr)

  @parameterized.parameters(*completion.SHELLS)
  def test_each_shell(self, shell):
    code, script, _ = command_runs.run(main.main, "completion", shell)
    self.assertEqual(code, 0)
    self.assertIn("estimator-mp", script)


if __name__ == "__main__":
  absltest.main()
