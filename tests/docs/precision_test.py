"""The programs of the guide to precision run."""

import estimator_mp
from tests.docs import guide_case, guides

import tensorflow as tf
from absl.testing import absltest

_GUIDE = "docs/precision.md"


class GuideTest(guide_case.GuideCase):
  def test_every_program_trains(self):
    programs = guides.programs(_GUIDE)
    self.assertLen(programs, 3)
    for number, program in enumerate(programs):
      names = {
        "estimator_mp": estimator_mp,
        "tf": tf,
        "model_fn": guides.model_fn,
      }
      with self.subTest(program=number):
        exec(compile(program, f"{_GUIDE} {number}", "exec"), names)
        estimator = tf.estimator.Estimator(
          names["sharded"],
          config=estimator_mp.run_config(
            names["config"], model_dir=self.create_tempdir().full_path
          ),
        )
        estimator.train(guides.input_fn, steps=3)
        self.assertTrue(estimator.latest_checkpoint())


if __name__ == "__main__":
  absltest.main()
