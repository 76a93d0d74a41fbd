"""The answers run, and print what the page shows."""

import contextlib
import io
import re

import estimator_mp
from tests import tiers
from tests.docs import guides

import tensorflow as tf
from absl.testing import absltest, parameterized

_PAGE = "docs/questions.md"
_PROGRAMS = guides.programs(_PAGE)


class QuestionsTest(parameterized.TestCase):
  @parameterized.parameters(*tiers.sample(range(len(_PROGRAMS))))
  def test_answer(self, number):
    names = {
      "estimator_mp": estimator_mp,
      "tf": tf,
      "model_fn": guides.model_fn,
      "input_fn": guides.input_fn,
      "model_dir": self.create_tempdir().full_path,
    }
    with contextlib.redirect_stdout(io.StringIO()) as output:
      exec(compile(_PROGRAMS[number], f"{_PAGE} {number}", "exec"), names)
    if "estimator" in names:
      self.assertEqual(names["estimator"].get_variable_value("global_step"), 2)
    if output.getvalue():
      shown = re.findall(r"\n\n```\n(.*?)\n```", guides.read(_PAGE), re.S)
      self.assertIn(shown[0], output.getvalue())

  def test_each_question_has_an_answer(self):
    questions = re.findall(r"^## ", guides.read(_PAGE), re.M)
    self.assertLen(_PROGRAMS, len(questions))


if __name__ == "__main__":
  absltest.main()
