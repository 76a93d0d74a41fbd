"""The page of errors quotes what the code says."""

import ast
import pathlib
import re

from absl.testing import absltest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _texts():
  """Returns all texts of the code; an f-string's are parted by its values."""
  for folder in ("compat", "estimator_mp", "model_fns"):
    for path in (_ROOT / folder).rglob("*.py"):
      for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
          yield node.value


class ErrorsTest(absltest.TestCase):
  def test_each_message_is_in_the_code(self):
    page = (_ROOT / "docs/errors.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `(.+?)` \|", page, re.M)
    self.assertGreater(len(quoted), 30)
    texts = "\n".join(_texts())
    self.assertEqual([x for x in quoted if x not in texts], [])


if __name__ == "__main__":
  absltest.main()
