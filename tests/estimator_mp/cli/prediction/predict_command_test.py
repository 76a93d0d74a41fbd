"""The predict command: examples in files go through stages, and come out."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from estimator_mp.cli.prediction import examples, predict_flags, serve_flags
from estimator_mp.serving import chain, export_stages, pipeline_file
from estimator_mp.serving.stage_server import StageServer
from tests import tiers
from tests.compat import processes
from tests.estimator_mp.cli import command_runs
from tests.estimator_mp.serving import chains, served_models

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

Spec = pipeline_file.TensorSpec
_SIX = [0] * 6
_ROW = {"x": _SIX, "ids": [0] * 4}


def setUpModule():
  tf.get_logger().setLevel("FATAL")


def _run(main, *arguments):
  """Returns the exit code, the output and the errors of a command."""
  with mock.patch.object(signal, "signal"):
    return command_runs.run(main, *arguments)


class CommandTest(parameterized.TestCase):
  folder = ""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    folder = tempfile.mkdtemp(dir=absltest.TEST_TMPDIR.value)
    model = served_models.MODELS["outputs"]
    estimator = chains.trained(model, folder)
    receiver_fn = served_models.receiver_fn("x", "ids")
    cls.exports = folder
    cls.stages = export_stages.export_stages(estimator, folder, receiver_fn)
    local = chains.Chain(cls.stages)
    cls.inputs = {"x": served_models.X, "ids": served_models.IDS}
    cls.expected = local.run("serving_default", cls.inputs)
    cls.servers = [
      StageServer(os.path.join(cls.stages, x.folder))
      for x in pipeline_file.read(cls.stages).stages
    ]

  @classmethod
  def tearDownClass(cls):
    super().tearDownClass()
    for server in cls.servers:
      server.stop()

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.enter_context(
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=self.folder)
    )
    rows = zip(self.inputs["x"], self.inputs["ids"], strict=True)
    self._write(
      "in.jsonl", [{"x": x.tolist(), "ids": i.tolist()} for x, i in rows]
    )
    np.savez(os.path.join(self.folder, "in.npz"), **self.inputs)

  def _write(self, name, rows):
    with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
      for row in rows:
        file.write(row if isinstance(row, str) else json.dumps(row))
        file.write("\n")

  def _predict(self, *arguments):
    addresses = ",".join(x.address for x in self.servers)
    return _run(
      predict_flags.COMMAND.main,
      f"--stages={self.exports}",
      f"--addresses={addresses}",
      *arguments,
    )

  @parameterized.parameters("in.jsonl", "in.npz")
  def test_predictions_are_printed(self, name):
    code, output, errors = self._predict(
      f"--examples={name}", "--outputs=output,again", "--batch_size=3"
    )
    self.assertEqual((code, errors), (0, ""))
    found = [json.loads(line) for line in output.splitlines()]
    self.assertLen(found, served_models.EXAMPLES)
    self.assertEqual([[*x] for x in found], [["output", "again"]] * len(found))
    np.testing.assert_allclose(
      [x["output"] for x in found],
      self.expected["output"],
      rtol=1e-6,
      atol=1e-6,
    )
    np.testing.assert_array_equal(
      [x["again"] for x in found], self.inputs["ids"]
    )

  @parameterized.parameters("out.jsonl", "out.npz")
  def test_predictions_are_written(self, name):
    code, output, errors = self._predict(
      "--examples=in.jsonl", "--outputs=output", f"--out={name}"
    )
    self.assertEqual((code, errors), (0, ""))
    path = os.path.join(self.folder, name)
    self.assertRegex(output, rf"^7 examples in 1 requests, \d.* s\n{path}\n$")
    if name.endswith(".npz"):
      found = np.load(path)["output"]
    else:
      with open(path, encoding="utf-8") as file:
        found = [json.loads(line)["output"] for line in file]
    np.testing.assert_allclose(
      found, self.expected["output"], rtol=1e-6, atol=1e-6
    )
    self.assertCountEqual(os.listdir(self.folder), ["in.jsonl", "in.npz", name])

  def test_an_output_without_rows(self):
    code, output, errors = self._predict("--examples=in.npz", "--out=a.npz")
    self.assertEqual((code, output), (2, ""))
    self.assertRegex(
      errors,
      r"^predict: the output '\w+' has the shape \[\], and no row for each of "
      r"7 examples; use --outputs=\S+\n$",
    )
    self.assertNotIn("a.npz", os.listdir(self.folder))

  @parameterized.parameters(
    (["{"], "line 1: Expecting property name enclosed in double quotes"),
    (["[1]"], "line 1: it is not a JSON object"),
    ([{"x": _SIX}], "line 1: there is no value for the input 'ids'; the mo"),
    (
      [_ROW, _ROW | {"y": 1}],
      "line 2: the model has no input 'y'; it has ids",
    ),
    (
      [_ROW, _ROW | {"x": [0] * 5}],
      "lines 1 to 2: the input 'x' has to be float32[?,6], and the given val",
    ),
    (
      [_ROW | {"x": [0] * 5}],
      "lines 1 to 1: the input 'x' has the shape [1,5], but the model takes [?",
    ),
    (
      [_ROW | {"ids": [0.5] * 4}],
      "lines 1 to 1: the input 'ids' has to be int64[?,4], and the given val",
    ),
  )
  def test_wrong_examples(self, rows, expected):
    self._write("bad.jsonl", rows)
    path = os.path.join(self.folder, "bad.jsonl")
    code, output, errors = self._predict("--examples=bad.jsonl")
    self.assertEqual((code, output), (2, ""))
    self.assertStartsWith(errors, f"predict: --examples={path}, {expected}")
    self.assertEqual(errors.count("\n"), 1)

  def test_files_that_cannot_be_read(self):
    self._write("bad.npz", ["text"])
    np.savez(f"{self.folder}/short.npz", x=self.inputs["x"], ids=[[1] * 4])
    for name, expected in (
      ("nothing", "cannot be read: No such file or di"),
      ("bad", "holds no arrays of numbers or texts: "),
      ("short", "has arrays of different lengths: x 7, ids 1$"),
    ):
      code, _, errors = self._predict(f"--examples={name}.npz")
      self.assertEqual(code, 2)
      self.assertRegex(errors, f"/{name}.npz {expected}")

  def test_wrong_outputs(self):
    code, _, errors = self._predict("--examples=in.npz", "--outputs=x")
    self.assertEqual(code, 2)
    self.assertStartsWith(errors, "predict: --outputs has x, but the model's ")

  def test_a_stage_that_is_not_there(self):
    code, output, errors = _run(
      predict_flags.COMMAND.main,
      f"--stages={self.stages}",
      "--examples=in.npz",
      "--addresses=127.0.0.1:1,127.0.0.1:1,127.0.0.1:1",
    )
    self.assertEqual((code, output), (1, ""))
    self.assertRegex(
      errors, r"^predict: stage 0 at 127.0.0.1:1 is not reachable: .+\n$"
    )

  def test_a_port_that_is_taken(self):
    port = int(self.servers[0].address.rpartition(":")[2])
    folder = os.path.join(self.stages, "stage_0")
    code, _, errors = _run(
      serve_flags.COMMAND.main, f"--stage_dir={folder}", f"--port={port}"
    )
    self.assertEqual(code, 2)
    self.assertRegex(errors, f"^serve: cannot listen on 127.0.0.1:{port};")

  @tiers.slow
  def test_processes_end_with_ctrl_c(self):
    """With a stage that another process serves, and examples without end."""
    addresses = [x.address for x in self.servers]
    folder = os.path.join(self.stages, "stage_0")
    serve = self._start("serve", f"--stage_dir={folder}", "--port=0")
    line = serve.stdout.readline()
    self.assertRegex(line, r"^stage 0 listens on 127.0.0.1:\d+$")
    addresses[0] = line.split()[-1]
    os.mkfifo(f"{self.folder}/endless.jsonl")
    process = self._start(
      "predict",
      f"--stages={self.stages}",
      f"--addresses={','.join(addresses)}",
      "--examples=endless.jsonl",
      "--outputs=output",
      "--batch_size=1",
      "--in_flight=1",
    )
    with open(f"{self.folder}/endless.jsonl", "w", encoding="utf-8") as file:
      for _ in range(4):
        file.write(json.dumps(_ROW) + "\n")
      file.flush()
      self.assertIn('"output"', process.stdout.readline())
      process.send_signal(signal.SIGINT)
      _, errors = process.communicate(timeout=600)
    self.assertEqual(
      (process.returncode, errors), (130, "predict: interrupted by SIGINT\n")
    )
    serve.send_signal(signal.SIGINT)
    self.assertEqual(serve.communicate(timeout=600), ("", ""))
    self.assertEqual(serve.returncode, 0)

  def _start(self, command, *arguments):
    """Returns the process of a command."""
    process = self.enter_context(
      subprocess.Popen(
        [sys.executable, "-m", "estimator_mp", command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What a user who has set nothing gets.
        env=processes.environment(TF_CPP_MIN_LOG_LEVEL=None),
      )
    )
    self.addCleanup(process.kill)
    return process


class ExamplesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def test_bytes_in_lines(self):
    inputs = {"word": Spec("string", (None,))}
    rows = ['{"word": "\u00fc"}', "", '{"word": {"b64": "/wA="}}']
    path = os.path.join(self.folder, "a.jsonl")
    with open(path, "w", encoding="utf-8") as file:
      file.write("\n".join(rows))
    (request,) = examples.read(path, inputs, 4)
    self.assertEqual([*request["word"]], ["\u00fc".encode(), b"\xff\0"])
    output = io.StringIO()
    examples.write(None, [request], output)
    self.assertEqual(
      output.getvalue(), '{"word": "\u00fc"}\n{"word": {"b64": "/wA="}}\n'
    )
    with self.assertRaisesRegex(ValueError, "that end in zeros, which .npz do"):
      examples.write(os.path.join(self.folder, "b.npz"), [request], output)
    self.assertEqual(os.listdir(self.folder), ["a.jsonl"])

  def test_an_input_without_rows(self):
    inputs = {"x": Spec("float32", (None,)), "rate": Spec("float32", ())}
    path = os.path.join(self.folder, "a.npz")
    np.savez(path, x=np.arange(5.0), rate=0.5)
    requests = [*examples.read(path, inputs, 2)]
    self.assertEqual([len(x["x"]) for x in requests], [2, 2, 1])
    self.assertEqual([x["rate"] for x in requests], [0.5] * 3)
    with self.assertRaisesRegex(
      ValueError, "'rate' has no row for each exampl"
    ):
      next(examples.read("a.jsonl", inputs, 2))

  def test_numbers_that_do_not_fit(self):
    for value, dtype, problem in (
      (np.array([300]), "int8", "a number is too large for int8"),
      (np.array([0.5]), "int64", "it is float64, with numbers that do not"),
      (np.array(["a"]), "float32", "it is <U1"),
      (np.array([1.0]), "bool", "it is float64"),
    ):
      with self.assertRaisesRegex(ValueError, problem):
        chain.as_array("x", value, Spec(dtype, (None,)))
    array = chain.as_array("x", [1, 2], Spec("float16", (None,)))
    self.assertEqual((array.dtype, [*array]), (np.float16, [1.0, 2.0]))


if __name__ == "__main__":
  absltest.main()
