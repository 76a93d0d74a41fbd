"""The guide to serving: its programs, and its commands, do what it says."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
from unittest import mock

from estimator_mp.cli.prediction import predict_flags, serve_flags
from estimator_mp.serving.stage_server import StageServer
from tests import tiers
from tests.docs import guide_case, guides

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_GUIDE = "docs/serving.md"


class GuideTest(guide_case.GuideCase):
  def _predict(self, arguments):
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      contextlib.redirect_stderr(io.StringIO()) as errors,
      mock.patch.object(signal, "signal"),
    ):
      code = predict_flags.COMMAND.main(["predict", *arguments])
    self.assertEqual((code, errors.getvalue()), (0, ""))
    return output.getvalue()

  @tiers.slow
  def test_the_guide(self):
    export, with_client = guides.programs(_GUIDE)
    with contextlib.redirect_stdout(io.StringIO()):
      self.names = guides.run(export)
      shutil.rmtree("export")
      self.names = guides.run(with_client)
    expected = self._whole()
    np.testing.assert_allclose(
      self.names["scores"], expected(self.names["x"]), rtol=1e-6, atol=1e-6
    )
    os.rename(self.names["path"], "export/1700000000")
    self._check_files()
    self._check_predictions(expected)
    self._check_addresses(expected)

  def _whole(self):
    """Returns a function that predicts by the whole model."""
    folder = self.names["estimator"].export_saved_model(
      str(self.folder / "whole"), self.names["serving_input_receiver_fn"]
    )
    whole = tf.saved_model.load(folder.decode()).signatures["serving_default"]

    def expected(x):
      return whole(x=tf.constant(x))["score"].numpy()

    return expected

  def _check_files(self):
    (listed,) = re.findall(
      r"```\n(export/.*?)```", guides.read(_GUIDE), re.DOTALL
    )
    for path in listed.split():
      self.assertTrue((self.folder / path.removesuffix("...")).exists(), path)

  def _check_predictions(self, expected):
    (line,) = re.findall(r"^```\n(\{.*\})\n```", guides.read(_GUIDE), re.M)
    self.x = np.array([json.loads(line)["x"]] * 2, np.float32)
    (self.folder / "examples.jsonl").write_text(f"{line}\n{line}\n")
    np.savez(self.folder / "examples.npz", x=self.x)
    printed, self.written, self.remote = guide_case.commands(_GUIDE, "predict")
    self._check_lines(self._predict(printed), expected)

  def _check_lines(self, output, expected):
    found = [json.loads(line)["score"] for line in output.splitlines()]
    np.testing.assert_allclose(found, expected(self.x), rtol=1e-6, atol=1e-6)

  def _check_addresses(self, expected):
    """On other ports, as somebody may have those of the guide."""
    arguments = self.remote
    for command in guide_case.commands(_GUIDE, "serve"):
      options = serve_flags.COMMAND.parse(["serve", *command])
      server = StageServer(options.stage_dir, options.listen)
      self.addCleanup(server.stop)
      told = f"{options.listen}:{options.port}"
      self.assertIn(told, arguments[-1])
      arguments = [x.replace(told, server.address) for x in arguments]
    self._check_lines(self._predict(arguments), expected)
    # Processes of its own, as of the first command, take long to start.
    self._predict([*self.written, arguments[-1]])
    found = np.load(self.folder / "predictions.npz")["score"]
    np.testing.assert_allclose(found, expected(self.x), rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
  absltest.main()
