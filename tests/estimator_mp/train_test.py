"""The train command in this process: results, reruns, errors, placement."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import tempfile
from unittest import mock

import estimator_mp
from estimator_mp import run_record, run_train, train_flags
from model_fns import datasets
from tests.estimator_mp import runs, train_runs

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
    self.assertEqual(facts["model"], "cifar10_cnn")
    self.assertEqual(facts["dataset"], "digits")
    self.assertEqual(facts["mesh"], "stage:3")
    self.assertEqual(facts["seed"], 1)
    self.assertEqual(facts["global_step"], 100)
    self.assertGreater(facts["steps_per_second"], 0)
    temporary = [x for x in os.listdir(self.model_dir) if x.endswith(".tmp")]
    self.assertEmpty(temporary)

  def test_model_learns(self):
    self.assertGreater(self.result.accuracy, 0.8)
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
    self.assertCountEqual(
      os.listdir(os.path.join(self.model_dir, "trace")),
      ["step_20.json", "step_20.png", "step_20.svg"],
    )

  def test_printed_end_shows_the_facts_of_the_result(self):
    end = self.output.partition("Finished.\n")[2]
    devices = self.result.devices
    for fact in (
      "  model        cifar10_cnn on digits\n",
      "  mesh         stage:3, seed 1\n",
      "  global step  100\n",
      f"  accuracy     {self.result.accuracy:.4f}\n",
      f"  loss         {self.result.loss:.4f}\n",
      f"  steps/s      {self.result.steps_per_second:.1f}\n",
      f"/device:CPU:2 {devices['/device:CPU:2'] / 1e6:.3f} MB\n",
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
    self.assertAlmostEqual(accuracy, self.result.accuracy, places=6)

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
    again = run_record.read_result(self.model_dir)
    # It kept the speed and the devices of the run that trained.
    self.assertEqual(
      dataclasses.replace(again, saved_model=self.result.saved_model),
      self.result,
    )
    self.assertIn("\n".join(again.lines()), output)


class ResumingTest(parameterized.TestCase):
  def _train(self, model_dir, steps, *arguments):
    """Returns the lines of the steps, without their speed."""
    options = train_runs.options(
      model_dir, f"--train_steps={steps}", "--log_every=1", *arguments
    )
    code, output, errors = train_runs.run_command(options)
    self.assertEqual((code, errors), (0, ""))
    return re.findall(r"^step (\d+)/\d+, (loss \S+?),?(?= |$)", output, re.M)

  @parameterized.named_parameters(
    ("the_same_mesh", "--mesh=stage:3"),
    ("another_mesh", "--mesh=stage:2", 1e-5),
  )
  def test_five_and_five_steps_are_ten(self, mesh, rtol=0.0):
    whole, halves = (self.create_tempdir().full_path for _ in "ab")
    # The other model has dropout, which begins anew as in any Estimator.
    arguments = ("--model=mlp", "--trace_steps=none")
    lines = self._train(whole, 10, *arguments)
    first = self._train(halves, 5, *arguments)
    second = self._train(halves, 10, *arguments, mesh)
    self.assertEqual([*first, *second], lines)
    expected = runs.variables_of(whole)
    found = runs.variables_of(halves)
    self.assertCountEqual(found, expected)
    for name, value in expected.items():
      atol = rtol * np.abs(value).max()
      np.testing.assert_allclose(
        found[name], value, rtol=rtol, atol=atol, err_msg=name
      )

  def test_without_the_position_the_images_begin_anew(self):
    model_dir = self.create_tempdir().full_path
    arguments = ("--model=mlp", "--nosave_input_position", "--trace_steps=none")
    self._train(model_dir, 3, *arguments)
    options = train_runs.options(model_dir, "--model=mlp", "--train_steps=4")
    code, output, errors = train_runs.run_command(options)
    self.assertEqual((code, errors), (0, ""))
    self.assertIn(
      "\nThe order of the images begins anew: it was not saved.\n", output
    )


class PlacementTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("cnn_stage_3", "cifar10_cnn", 3), ("mlp_stage_4", "mlp", 4)
  )
  def test_each_stage_computes_and_holds_variables(self, model, stages):
    """Read from the partition graphs of a real step, not from the plan."""
    options = train_runs.options(
      self.create_tempdir().full_path,
      f"--model={model}",
      f"--mesh=stage:{stages}",
    )
    job = run_train.prepare(options)
    hook = estimator_mp.PlacementVerificationHook()
    input_fn = job.dataset.train_input_fn(options.batch_size, options.seed)
    job.estimator.train(input_fn, hooks=[hook], max_steps=1)
    self.assertLen(job.mesh.devices, stages)
    for device in job.mesh.devices:
      contents = hook.observed[device]
      self.assertNotEmpty(contents.variables)
      heavy = [x for x in contents.op_types if x.endswith(("MatMul", "Conv2D"))]
      self.assertNotEmpty(heavy, f"{device}: {contents.op_types}")


class OptimizersTest(parameterized.TestCase):
  @parameterized.named_parameters((x, x) for x in train_flags.OPTIMIZERS)
  def test_optimizer_trains(self, optimizer):
    options = train_runs.options(
      self.create_tempdir().full_path,
      "--model=mlp",
      f"--optimizer={optimizer}",
      "--train_steps=3",
    )
    code, output, errors = train_runs.run_command(options)
    self.assertEqual((code, errors), (0, ""))
    self.assertIn("Finished.", output)


class ErrorsTest(parameterized.TestCase):
  """Each one is a line on standard error, and an exit code."""

  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path

  def _check(self, expected: str, *arguments: str, code: int = 2) -> None:
    options = train_runs.options(self.model_dir, *arguments)
    found, _, errors = train_runs.run_command(options)
    self.assertEqual(errors, f"train: {expected}\n")
    self.assertEqual(found, code)

  @parameterized.named_parameters(
    (
      "unknown_axis",
      "--mesh=layer:3",
      "mesh 'layer:3' has an unknown axis 'layer'; the axes are data, stage,"
      " model",
    ),
    (
      "more_stages_than_layers",
      "--mesh=stage:4",
      "mesh stage:4 has 4 stages, but the model has 3 layer(s); use at most"
      " stage:3",
    ),
    (
      "batch_size",
      "--batch_size=1440",
      "batch_size=1440 does not fit the 1438 training images of digits; use 1"
      " to 1438",
    ),
    (
      "micro_batches",
      "--num_micro_batches=6",
      "num_micro_batches=6 does not divide batch_size=64; use 1, 2, 4, 8, 16,"
      " 32 or 64",
    ),
    (
      "replicas",
      "--mesh=data:3",
      "data:3 does not divide batch_size=64; use --batch_size=63 or 66, or as"
      " many replicas as divide it",
    ),
    (
      "micro_batches_of_a_replica",
      "--mesh=data:32,stage:3",
      "num_micro_batches=4 does not divide the 2 of batch_size=64 that each of"
      " 32 replicas gets; use 1 or 2",
    ),
    (
      "processes",
      "--aggregation=horovod",
      "--aggregation=horovod is for programs that horovodrun starts, and this"
      " command is one process; use a data axis, such as"
      " --mesh=data:2,stage:3, or see docs/horovod.md",
    ),
    (
      "algorithm_of_shared_variables",
      "--mesh=data:2,stage:2 --variables=shared --aggregation=ring",
      "aggregation='ring', compression='none', sparse_as_dense=None is for"
      " replicas that all get the sum of gradients, but with variables='shared'"
      " and optimizer_state='replicated' one gets it; use"
      ' variables="mirrored" and optimizer_state="replicated", or leave these'
      " out",
    ),
    (
      "data_dir_of_the_digits",
      "--data_dir=/data",
      "data_dir=/data does not fit dataset=digits, which is embedded in"
      " scikit-learn; leave --data_dir out, or use --dataset=cifar10",
    ),
  )
  def test_option_that_does_not_fit(self, argument, expected):
    self._check(expected, *argument.split())

  def test_device_that_does_not_exist(self):
    options = train_runs.options(self.model_dir, "--devices=cpu:0,cpu:1,gpu:77")
    code, _, errors = train_runs.run_command(options)
    self.assertEqual(code, 2)
    self.assertRegex(
      errors, r"^train: device /device:GPU:77 does not exist.*\n$"
    )

  def test_damaged_data(self):
    directory = pathlib.Path(self.create_tempdir().full_path)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
      (directory / f"{name}.bin").write_bytes(bytes(3073))
    (directory / "data_batch_3.bin").write_bytes(bytes(3073 + 17))
    self._check(
      f"{directory}/data_batch_3.bin: record 1 (at byte 3073) is truncated: it"
      " has 17 of 3073 bytes; unpack cifar-10-binary.tar.gz (from the"
      " University of Toronto's CIFAR-10 page) again",
      "--dataset=cifar10",
      f"--data_dir={directory}",
    )
    self.assertEmpty(os.listdir(self.model_dir))

  @parameterized.named_parameters(
    ("model_dir", "model_dir"), ("export_dir", "export_dir")
  )
  def test_directory_that_cannot_be_written(self, flag):
    file = self.create_tempfile(content="not a directory").full_path
    self._check(
      f"{flag}={file}/x cannot be written ({file} is not a directory); choose"
      f" another --{flag}",
      f"--{flag}={file}/x",
    )

  def test_resuming_with_another_model_or_optimizer(self):
    code, _, _ = train_runs.run_command(
      train_runs.options(self.model_dir, "--model=mlp", "--train_steps=2")
    )
    self.assertEqual(code, 0)
    start = f"model_dir={self.model_dir} has checkpoints of"
    end = "or choose another --model_dir"
    self._check(
      f"{start} --model=mlp, which --model=cifar10_cnn cannot resume; use"
      f" --model=mlp {end}"
    )
    self._check(
      f"{start} --optimizer=adam, which --optimizer=sgd cannot resume; use"
      f" --optimizer=adam {end}",
      "--model=mlp",
      "--optimizer=sgd",
    )
    os.remove(os.path.join(self.model_dir, "run.json"))
    self._check(
      f"{start[:-3]} but no run.json: another program made them; choose another"
      " --model_dir",
      "--model=mlp",
    )

  def test_cluster(self):
    cluster = '{"cluster": {"chief": ["localhost:1"], "ps": ["localhost:2"]}}'
    with mock.patch.dict(os.environ, TF_CONFIG=cluster):
      self._check(
        "TF_CONFIG names a cluster, but this command trains on one machine;"
        " unset TF_CONFIG"
      )

  def test_loss_that_is_not_a_number(self):
    self._check(
      "the loss is no longer a number; --learning_rate=1e+30 is too large for"
      " --optimizer=sgd, use a smaller one and another --model_dir",
      "--learning_rate=1e30",
      "--optimizer=sgd",
      "--model=mlp",
      code=1,
    )


class NamesTest(absltest.TestCase):
  def test_flags_know_what_there_is(self):
    self.assertEqual(train_flags.DATASETS, datasets.NAMES)
    self.assertSameElements(train_flags.MODELS, run_train.MODELS)


if __name__ == "__main__":
  absltest.main()
