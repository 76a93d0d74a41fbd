"""The guide to Keras models runs, and trains what it says."""

import contextlib
import io

from tests import tiers
from tests.docs import guide_case, guides

from absl.testing import absltest

_GUIDE = "docs/keras.md"


class GuideTest(guide_case.GuideCase):
  def test_every_program_runs(self):
    programs = guides.programs(_GUIDE)
    self.assertLen(programs, 3)
    for number, program in enumerate(programs):
      model_dir = self.create_tempdir().full_path
      names = {"model_dir": model_dir, "input_fn": guides.input_fn}
      with (
        self.subTest(program=number),
        contextlib.redirect_stdout(io.StringIO()),
      ):
        exec(compile(program, f"{_GUIDE} {number}", "exec"), names)
        checkpoint = names["estimator"].latest_checkpoint()
        self.assertEndsWith(checkpoint, "model.ckpt-20")

  @tiers.slow
  def test_train(self):
    (arguments,) = guide_case.commands(_GUIDE, "train")
    result = self.train(arguments)
    self.assertEqual(result.mesh, "stage:2")
    self.assertEqual(result.figure, "accuracy")


if __name__ == "__main__":
  absltest.main()
