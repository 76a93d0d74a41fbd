"""Requests on their way through a chain, whose stages are functions here."""

from estimator_mp.serving import chain
from estimator_mp.serving.pipeline_file import (
  Signature,
  Source,
  Step,
  TensorSpec,
)

from absl.testing import absltest

_SPEC = TensorSpec("int64", ())


def _step(stage, inputs, *outputs):
  return Step(stage, "run", inputs, dict.fromkeys(outputs, _SPEC))


class RunTest(absltest.TestCase):
  def test_a_result_that_later_steps_read_is_given_back(self):
    signature = Signature(
      {"x": _SPEC},
      (
        _step(0, {"x": Source(None, "x")}, "early", "inner"),
        _step(1, {"y": Source(0, "early"), "z": Source(0, "inner")}, "late"),
      ),
      {"first": Source(0, "early"), "last": Source(1, "late")},
    )

    def call(stage, name, inputs):
      self.assertEqual(name, "run")
      if stage == 0:
        return {"early": inputs["x"] + 1, "inner": inputs["x"] * 10}
      return {"late": inputs["y"] + inputs["z"]}

    self.assertEqual(
      chain.run(signature, {"x": 4}, call), {"first": 5, "last": 45}
    )


if __name__ == "__main__":
  absltest.main()
