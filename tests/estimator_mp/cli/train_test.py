"""The train command in this process: results, reruns, errors, placement."""

import contextlib
import dataclasses
import io
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

from estimator_mp import amounts
from estimator_mp.cli import failures, run_train
from estimator_mp.observe import progress
from estimator_mp.session import whole_checkpoints
from model_fns import datasets
from model_fns.recipes import catalogue
from tests import tiers
from tests.estimator_mp.cli import train_runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized


def setUpModule():
  # The command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


def _accuracy_of_saved_model(path: str) -> float:
  """Returns the share of raw held-out digits that a SavedModel gets right."""
  dataset = datasets.load("digits")
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    examples = dataset.test_examples().batch(dataset.num_test)
    images, labels = session.run(
      tf.compat.v1.data.make_one_shot_iterator(examples).get_next()
    )
    model = tf.compat.v1.saved_model.load(session, ["serve"], path)
    signature = model.signature_def["predict"]
    classes = session.run(
      signature.outputs["class_ids"].name,
      {signature.inputs["image"].name: images},
    )
  return float(np.mean(classes[:, 0] == labels))


class RunTest(absltest.TestCase):
  """One run of the default model, looked at from all sides."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.directory = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.model_dir = os.path.join(cls.directory, "run")
    cls.export_dir = os.path.join(cls.directory, "export")
    cls.options = train_runs.options(
      cls.model_dir, "--train_steps=100", f"--export_dir={cls.export_dir}"
    )
    with contextlib.redirect_stdout(io.StringIO()) as output:
      cls.result = run_train.train(cls.options)
    cls.output = output.getvalue()

  def test_result_file_holds_the_result(self):
    text = pathlib.Path(self.model_dir, "result.json").read_text()
    facts = json.loads(text)
    self.assertEqual(facts, dataclasses.asdict(self.result))
    self.assertEqual((facts["mesh"], facts["global_step"]), ("stage:3", 100))
    temporary = [x for x in os.listdir(self.model_dir) if x.endswith(".tmp")]
    self.assertEmpty(temporary)

  def test_model_learns(self):
    self.assertEqual(self.result.figure, "accuracy")
    self.assertGreater(self.result.value, 0.8)
    self.assertLess(self.result.loss, 0.6)

  def test_output_shows_each_part_in_order(self):
    self.assertContainsInOrder(
      [
        "1,438 images to train and 359 held out, 8x8x1, 10 classes",
        "stage:3 (/device:CPU:0, /device:CPU:1, /device:CPU:2)",
        f"TensorFlow   {tf.__version__}",
        "stage  device",
        "0      /device:CPU:0  block1",
        "1      /device:CPU:1  block2",
        "2      /device:CPU:2  block3",
        "step 1/100, loss ",
        "step 20: bubble ",
        os.path.join("trace", "step_20.png"),
        "evaluation at step 40: accuracy ",
        "step 50/100, loss ",
        "evaluation at step 80: accuracy ",
        "step 100/100, loss ",
        "evaluation at step 100: accuracy ",
        "Finished.",
      ],
      self.output,
    )

  def test_step_is_drawn(self):
    drawn = os.listdir(os.path.join(self.model_dir, "trace"))
    self.assertCountEqual(
      drawn, [f"step_20.{x}" for x in ("json", "png", "svg")]
    )

  def test_printed_end_shows_the_facts_of_the_result(self):
    end = self.output.partition("Finished.\n")[2]
    devices = self.result.devices
    for fact in (
      "  model        cifar10_cnn on digits\n",
      "  mesh         stage:3, seed 1\n",
      "  global step  100\n",
      f"  accuracy     {self.result.value:.4f} (logistic regression on 1,438"
      f" images: {self.result.baseline_value:.4f})\n",
      f"  loss         {self.result.loss:.4f}\n",
      f"  steps/s      {self.result.steps_per_second:.1f}\n",
      f"/device:CPU:2 {amounts.amount(devices['/device:CPU:2'], 'B')}\n",
      f"  checkpoint   {self.model_dir}/model.ckpt-100\n",
      f"  SavedModel   {self.result.saved_model}\n",
      f"  result       {self.model_dir}/result.json\n",
      f"tensorboard --logdir={self.model_dir}\n",
    ):
      self.assertIn(fact, end)

  def test_devices_hold_the_bytes_of_the_checkpoint(self):
    """Observed in a real step, they add up to what was saved."""
    self.assertSameElements(
      self.result.devices, [f"/device:CPU:{i}" for i in range(3)]
    )
    reader = tf.train.load_checkpoint(self.model_dir)
    saved = sum(
      reader.get_tensor(name).nbytes
      for name in reader.get_variable_to_shape_map()
    )
    self.assertEqual(sum(self.result.devices.values()), saved)
    for size in self.result.devices.values():
      self.assertGreater(size, 1000)

  def test_saved_model_serves_raw_images(self):
    self.assertStartsWith(self.result.saved_model, self.export_dir)
    accuracy = _accuracy_of_saved_model(self.result.saved_model)
    self.assertAlmostEqual(accuracy, self.result.value, places=6)

  def test_second_run_has_nothing_to_do(self):
    options = dataclasses.replace(self.options, export_dir=None)
    code, output, errors = train_runs.run_command(options)
    self.assertEqual((code, errors), (0, ""))
    self.assertIn(
      "Already trained to step 100: nothing to do. Raise --train_steps to train"
      " on, or choose another --model_dir.\n",
      output,
    )
    self.assertNotIn("step 100/100", output)
    again = train_runs.result(self.model_dir)
    of_training = {"steps_per_second": None, "devices": None}
    of_this_run = {"saved_model": None, "seconds": again.seconds, **of_training}
    self.assertEqual(again, dataclasses.replace(self.result, **of_this_run))
    self.assertIn("\n".join(again.lines()), output)


class ResumingTest(absltest.TestCase):
  def _train(self, steps, *arguments):
    """Returns the losses of the steps."""
    output = train_runs.output(
      *(self.create_tempdir().full_path, f"--train_steps={steps}"),
      *("--model=mlp", "--log_every=1", "--trace_steps=none", *arguments),
    )
    return re.findall(r"^step \d+/\d+, (loss \S+?),?(?= |$)", output, re.M)

  @tiers.slow
  def test_the_seed_decides_and_the_mesh_does_not(self):
    losses = self._train(3)
    self.assertEqual(losses, self._train(3, "--mesh=data:2,stage:2"))
    self.assertNotEqual(losses[0], self._train(1, "--seed=2")[0])

  @tiers.slow
  def test_without_the_position_the_images_begin_anew(self):
    model_dir = self.create_tempdir().full_path
    train_runs.output(
      *(model_dir, "--model=mlp", "--train_steps=3", "--log_every=1"),
      *("--nosave_input_position", "--trace_steps=none"),
    )
    with self.assertLogs("tensorflow.run", "WARNING") as logged:
      output = train_runs.output(model_dir, "--model=mlp", "--train_steps=4")
    self.assertIn(
      "\nOptions differ from the run before: --train_steps: 3 -> 4, "
      "--save_input_position: False -> True, --log_every: 1 -> 50, "
      "--trace_steps: () -> (20,)\n",
      output,
    )
    self.assertEqual(
      logged.records[0].getMessage(),
      "The input starts from its beginning, not from the position of the "
      "checkpoint: step 3 was saved without it",
    )


class OptimizersTest(parameterized.TestCase):
  # The other tests train with Adam, and with SGD.
  @tiers.slow
  @parameterized.named_parameters((x, x) for x in catalogue.OPTIMIZERS[:-1])
  def test_optimizer_trains(self, optimizer):
    output = train_runs.output(
      self.create_tempdir().full_path,
      "--model=mlp",
      f"--optimizer={optimizer}",
      "--train_steps=3",
    )
    self.assertIn("Finished.", output)


class ErrorsTest(parameterized.TestCase):
  """Each one is a line on standard error, and an exit code."""

  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path

  def _check(self, expected: str, *arguments: str, code: int = 2) -> None:
    found, _, errors = train_runs.run(self.model_dir, *arguments)
    self.assertRegex(errors, f"^train: {expected}")
    self.assertLen(errors.splitlines(), 1)
    self.assertEqual(found, code)

  @parameterized.named_parameters(
    ("model_dir", "model_dir"), ("export_dir", "export_dir")
  )
  def test_directory_that_cannot_be_written(self, flag):
    file = self.create_tempfile(content="not a directory").full_path
    self._check(
      rf"{flag}={file}/x cannot be written \({file} is not a dir.* --{flag}$",
      f"--{flag}={file}/x",
    )

  @tiers.slow
  def test_resuming_with_another_model_or_optimizer(self):
    train_runs.output(self.model_dir, "--model=mlp", "--train_steps=2")
    start = f"model_dir={self.model_dir} has checkpoints"
    self._check(f"{start} of --model=mlp, .* use --model=mlp or choose another")
    self._check(
      f"{start} of --optimizer=adam, .* use --optimizer=adam or choose another",
      "--model=mlp",
      "--optimizer=sgd",
    )
    os.remove(os.path.join(self.model_dir, "run.json"))
    self._check(
      f"{start}, but no whole run.json: .* another --model_dir",
      "--model=mlp",
      code=1,
    )

  def test_cluster(self):
    cluster = '{"cluster": {"chief": ["localhost:1"], "ps": ["localhost:2"]}}'
    with mock.patch.dict(os.environ, TF_CONFIG=cluster):
      self._check("TF_CONFIG=.* 'None' is not one of .* jobs chief, ps; write")

  def test_loss_that_is_not_a_number(self):
    self._check(
      "the loss is NaN; --learning_rate=1e.30 .* --optimizer=sgd; use a sm",
      "--learning_rate=1e30",
      "--optimizer=sgd",
      "--model=mlp",
      code=1,
    )


def _largest_data(model_dir: pathlib.Path, step: int) -> pathlib.Path:
  files = model_dir.glob(f"model.ckpt-{step}.data-*")
  return max(files, key=lambda file: file.stat().st_size)


def _truncate(model_dir):
  os.truncate(_largest_data(model_dir, 4), 1000)


def _flip_a_byte(model_dir):
  file = _largest_data(model_dir, 4)
  content = bytearray(file.read_bytes())
  content[-1] ^= 1
  file.write_bytes(content)


class DamageTest(parameterized.TestCase):
  """A model_dir that something happened to: one line, and nothing is lost."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    directory = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.trained = os.path.join(directory, "trained")
    for steps in (2, 4):
      train_runs.output(cls.trained, *_mlp(steps))

  def setUp(self):
    super().setUp()
    self.model_dir = os.path.join(self.create_tempdir().full_path, "run")
    shutil.copytree(self.trained, self.model_dir)
    self.path = pathlib.Path(self.model_dir)

  def _files(self):
    """Returns what is in the checkpoints, and in what names the newest one."""
    found = map(self.path.glob, ("*.index", "*.data-*", "checkpoint"))
    return {x.name: x.read_bytes() for x in itertools.chain(*found)}

  def _check(
    self,
    expected: str,
    steps: int = 6,
    code: int = 1,
    checkpoints_stay: bool = True,
  ) -> str:
    """Returns the error of a run; asserts it, and that checkpoints stay."""
    before = self._files()
    exit_code, _, errors = train_runs.run(self.model_dir, *_mlp(steps))
    self.assertRegex(errors, f"^train: {expected}\n$")
    self.assertLen(errors.splitlines(), 1)
    self.assertEqual(exit_code, code)
    if checkpoints_stay:
      self.assertEqual(self._files(), before)
    return errors

  def test_a_byte_that_differs(self):
    _flip_a_byte(self.path)
    self._check(
      f"{self.model_dir}/model.ckpt-4 is damaged .*Checksum does not match.*;"
      r" remove model.ckpt-4.\* to resume from the checkpoint before it, .*"
    )
    # What the error says is what to do.
    for file in self.path.glob("model.ckpt-4.*"):
      file.unlink()
    with self.assertLogs("tensorflow.run", "WARNING"):
      said = train_runs.output(self.model_dir, *_mlp(4))
    self.assertIn("  steps        2 to 4,", said)

  def test_no_file_names_a_checkpoint(self):
    (self.path / "checkpoint").unlink()
    error = self._check(
      f"{self.model_dir}/checkpoint is missing beside model.ckpt-4; write "
      "model_checkpoint_path: .* into it .*"
    )
    line = error.partition("write ")[2].partition(" into it")[0]
    (self.path / "checkpoint").write_text(line)
    said = train_runs.output(self.model_dir, *_mlp(4))
    self.assertIn("Already trained to step 4", said)

  @tiers.slow
  def test_what_is_not_whole_is_left_out(self):
    """whole_checkpoints_test has the other ways."""
    _truncate(self.path)
    with self.assertLogs("tensorflow.run", "WARNING") as logged:
      said = train_runs.output(self.model_dir, *_mlp(4))
    self.assertRegex(
      logged.records[0].getMessage(),
      f"^{self.model_dir}/model.ckpt-4 is incomplete: its data files have .*;"
      f" training goes on from {self.model_dir}/model.ckpt-2$",
    )
    self.assertIn("  steps        2 to 4,", said)
    newest = tf.train.latest_checkpoint(self.model_dir)
    self.assertIsNone(whole_checkpoints.damage(newest))

  def test_no_checkpoint_is_whole(self):
    for step in (0, 2, 4):
      os.truncate(_largest_data(self.path, step), 1000)
    self._check(f"{self.model_dir}/model.ckpt-4 is damaged .*; remove .*")

  def test_placement_file(self):
    (self.path / "placement.json").write_text('{"mesh": "stage:3"')
    said = (
      f"{self.model_dir}/placement.json holds no placement .*; delete it, .*"
    )
    self._check(said, steps=4, code=2)

  def test_file_where_a_folder_is_to_be(self):
    shutil.rmtree(self.path / "eval")
    (self.path / "eval").write_text("")
    self._check(
      f"{self.model_dir}/eval.*; mend that, .*/model.ckpt-6 is saved, and .*",
      checkpoints_stay=False,
    )

  @parameterized.named_parameters(("before_training", 0), ("while_training", 5))
  def test_full_disk(self, steps):
    """A limit of the process stands for the end of the disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_disk(hook, context, values):
      after_run(hook, context, values)
      if hook.step == steps:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

    after_run = progress.ProgressHook.after_run
    try:
      if not steps:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
      with mock.patch.object(progress.ProgressHook, "after_run", fill_disk):
        self._check(
          f"{self.model_dir}/.*; File too large; free some space, .*; "
          f"{self.model_dir}/model.ckpt-4 is saved, and .*"
        )
    finally:
      resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    self.assertEmpty([*self.path.glob("*.json.*")])

  def test_full_disk_as_ops_report_it(self):
    """What TensorFlow 2.21 said on a tmpfs of 9 MB."""
    part = f"{self.model_dir}/model.ckpt-6_temp/part-1"
    error = tf.errors.ResourceExhaustedError(
      None,
      None,
      "Graph execution error:\n\nDetected at node 'save/SaveV2' defined at"
      ' (most recent call last):\n  File "train.py", line 1, in <module>\n2'
      f" root error(s) found.\n  (0) RESOURCE_EXHAUSTED: {part}; No space left"
      " on device\n\t [[{{node save/SaveV2_1}}]]",
    )
    self.assertRegex(
      failures.file_error_line(error, [self.model_dir]),
      f"^{part}; No space left on device; free some space, ",
    )

  def test_what_is_no_failure_of_files(self):
    text = f"a bug that knows of {self.model_dir}"
    for error in (ValueError(text), OSError("no file")):
      self.assertIsNone(failures.file_error_line(error, [self.model_dir]))

  @tiers.slow
  def test_two_processes(self):
    """The lock of a process that was killed is none."""
    program = (
      "import fcntl, sys\n"
      "file = open(sys.argv[1], 'a')\n"
      "fcntl.flock(file, fcntl.LOCK_EX)\n"
      "print('locked', flush=True)\n"
      "sys.stdin.read()\n"
    )
    lock = self.path / "run.lock"
    with subprocess.Popen(
      [sys.executable, "-c", program, lock],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
    ) as other:
      other.stdout.readline()
      lock.write_text(f"process {other.pid} on this machine\n")
      self._check(
        f"model_dir={self.model_dir} is in use by process {other.pid} on .*"
      )
      other.kill()
    train_runs.output(self.model_dir, *_mlp(4))
    self.assertStartsWith(lock.read_text(), f"process {os.getpid()} on ")


def _mlp(steps: int) -> tuple[str, ...]:
  return (
    *("--model=mlp", "--trace_steps=2"),
    *("--save_checkpoints_steps=2", f"--train_steps={steps}"),
  )


if __name__ == "__main__":
  absltest.main()
