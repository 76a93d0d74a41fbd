"""Each task reads its own part of the data, and trains as one reader would."""

import contextlib
import functools
import os
import shutil
import tempfile
from unittest import mock

import estimator_mp
from estimator_mp import devices, toolbox
from estimator_mp.distributed import input_by_task
from estimator_mp.session import distribution
from tests import tiers
from tests.estimator_mp import parts, runs
from tests.estimator_mp.distributed import clusters

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_GLOBAL_BATCH = 24
_STEPS = 3
_TWO = estimator_mp.ShardingConfig("data:2")
_RUN = {"tf_random_seed": 11, "checkpoint_save_graph_def": False}


def _data(count=240):
  """Returns arrays of examples with features of every kind, and labels."""
  random = np.random.RandomState(3)
  x = random.normal(size=[count, 6]).astype(np.float32)
  lengths = random.randint(1, 5, count)
  features = {
    "x": x,
    "ids": random.randint(0, 7, [count, 3]),
    "word": random.choice(["a", "b", "c"], count).astype(object),
    "bag": x * (x > 0.3),
    "rows": [list(row[:n]) for row, n in zip(x, lengths, strict=True)],
  }
  return features, random.normal(size=[count]).astype(np.float32)


_DATA = _data()


def _examples(order):
  """Returns a Dataset of some examples."""
  features, labels = _DATA
  features = features | {
    "rows": tf.ragged.constant([features["rows"][i] for i in order])
  }
  for name in ("x", "ids", "word"):
    features[name] = features[name][order]
  features["bag"] = tf.sparse.from_dense(features["bag"][order])
  return tf.data.Dataset.from_tensor_slices((features, labels[order]))


def _read(input_context=None, count=240, is_static=True):
  """An input_fn as tf.estimator documents it."""
  dataset = _examples(np.arange(count))
  batch_size = _GLOBAL_BATCH
  if input_context:
    dataset = dataset.shard(
      input_context.num_input_pipelines, input_context.input_pipeline_id
    )
    batch_size = input_context.get_per_replica_batch_size(batch_size)
  return dataset.batch(batch_size, drop_remainder=is_static).prefetch(2)


def _read_by_chief():
  return _read()


def _dense(dataset):
  """Returns a Dataset without sparse and ragged features.

  The ops that read those are executed once, where all examples are.
  """
  names = "x", "ids", "word"
  return dataset.map(
    lambda features, labels: ({x: features[x] for x in names}, labels)
  )


def _read_dense(input_context=None):
  return _dense(_read(input_context))


def _plain(pipelines, count=240):
  """Returns an input_fn that concatenates what pipelines read.

  Args:
    pipelines: How many replicas each feeds.
    count: The number of examples.
  """
  size = _GLOBAL_BATCH // sum(pipelines)
  shards = [
    np.arange(count)[i :: len(pipelines)] for i in range(len(pipelines))
  ]
  steps = -(-max(len(x) for x in shards) // (size * max(pipelines)))
  batches = [
    np.concatenate(
      [
        x[s * n * size :][: n * size]
        for x, n in zip(shards, pipelines, strict=True)
      ]
    )
    for s in range(steps)
  ]

  def input_fn():
    found = [_examples(batch).batch(len(batch)) for batch in batches]
    whole = found[0]
    for dataset in found[1:]:
      whole = whole.concatenate(dataset)
    return whole

  return input_fn


def _model_fn(features, labels, mode):
  """A regression of what features there are."""
  table = v1.get_variable("table", [7, 4])
  words = v1.get_variable("words", [5, 4])
  kernel = v1.get_variable("kernel", [6, 4])
  bag = v1.get_variable("bag", [6, 4])
  if not isinstance(features, dict):
    features = {"x": features}
  hidden = tf.matmul(features["x"], kernel)
  if "ids" in features:
    hidden += tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
  if "word" in features:
    word = tf.strings.to_hash_bucket_fast(features["word"], 5)
    hidden += tf.nn.embedding_lookup(words, word)
  if "bag" in features:
    hidden += tf.sparse.sparse_dense_matmul(features["bag"], bag)
  if "rows" in features:
    hidden += tf.reduce_mean(features["rows"], 1)[:, tf.newaxis]
  output = tf.matmul(tf.tanh(hidden), v1.get_variable("output", [4, 1]))[:, 0]
  target = features["x"][:, 0] if labels is None else labels
  loss = tf.reduce_mean((output - target) ** 2)
  return parts.spec(mode, loss, v1.train.MomentumOptimizer(0.1, 0.9))


def _is_far(transfer):
  """Whether something was sent to another task."""
  return devices.task_of(transfer.source) != devices.task_of(
    transfer.destination
  )


def _sent_inputs(observer):
  """Returns what tasks sent each other of batches, and of slices of them."""
  inputs = (
    *("IteratorGetNext", "estimator_mp/input", "estimator_mp/slices"),
    "slice/",
  )
  return [
    x.op
    for x in observer.transfers
    if _is_far(x) and not x.is_signal and x.op.startswith(inputs)
  ]


class InputByTaskTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.plain = {}
    stack = contextlib.ExitStack()
    cls.addClassCleanup(stack.close)
    folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.start = os.path.join(folder, "start")
    runs.train(_model_fn, None, None, cls.start, 1, _plain([1]))
    stack.enter_context(clusters.in_process(4, chief=1, worker=1))

  def _model_dir(self):
    """Returns a folder to train on from the start."""
    model_dir = os.path.join(self.create_tempdir().full_path, "run")
    shutil.copytree(self.start, model_dir)
    return model_dir

  def _train(
    self,
    input_fn,
    config=None,
    steps=None,
    hooks=(),
    model_fn=_model_fn,
    model_dir=None,
    saves=False,
  ):
    """Trains on; returns losses and variables."""
    model_dir = model_dir or self._model_dir()
    recorder = runs.LossRecorder()
    spec = tf.estimator.TrainSpec(input_fn, hooks=[recorder, *hooks])
    if config is None:
      with mock.patch.dict(os.environ, TF_CONFIG="{}"):
        made = tf.estimator.RunConfig(model_dir, **_RUN)
    else:
      made = estimator_mp.run_config(config, model_dir, saves, **_RUN)
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
      spec = input_by_task.of_train_spec(spec, config)
    with distribution.cluster_run():
      estimator = tf.estimator.Estimator(model_fn, config=made)
      estimator.train(spec.input_fn, list(spec.hooks), steps)
    return recorder.losses, runs.variables_of(model_dir)

  def _assert_same(self, found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    self.assertCountEqual(found[1], expected[1])
    for name, value in expected[1].items():
      np.testing.assert_allclose(
        found[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name
      )

  def _assert_no_batch_is_sent(self, observer):
    self.assertEmpty(_sent_inputs(observer))
    # But sums of gradients are.
    self.assertNotEmpty([x for x in observer.transfers if _is_far(x)])

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("replicas", "data:2", 1, [1, 1]),
        ("pipelines", "data:2,stage:2", 3, [1, 1]),
        ("three", "data:3", 2, [2, 1]),
        ("four", "data:4", 1, [2, 2]),
      ]
    )
  )
  def test_trains_as_one_reader_does(self, mesh, num_micro_batches, pipelines):
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    found = self._train(_read, config, _STEPS)
    if str(pipelines) not in self.plain:
      plain = self._train(_plain(pipelines), steps=_STEPS)
      self.plain[str(pipelines)] = plain
    self._assert_same(found, self.plain[str(pipelines)])

  @tiers.slow
  def test_no_dense_feature_is_sent(self):
    config = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=3)
    observer = toolbox.PlacementVerificationHook()
    found = self._train(_read_dense, config, _STEPS, [observer])
    read = _plain([1, 1])
    plain = self._train(lambda: _dense(read()), steps=_STEPS)
    self._assert_same(found, plain)
    self._assert_no_batch_is_sent(observer)

  @tiers.slow
  def test_without_context_the_chief_reads(self):
    observer = toolbox.PlacementVerificationHook()
    found = self._train(_read_by_chief, _TWO, _STEPS, [observer])
    self._assert_same(found, self._train(_plain([1]), steps=_STEPS))
    self.assertNotEmpty(_sent_inputs(observer))

  @tiers.slow
  @parameterized.parameters(tiers.sample([1, 3]))
  def test_short_last_batches_count_as_they_are(self, num_micro_batches):
    # Each reads 12 and 12; then the one 7 and the other 6.
    config = estimator_mp.ShardingConfig(
      "data:2", num_micro_batches=num_micro_batches
    )
    read = functools.partial(_read, count=61, is_static=False)
    found = self._train(read, config)
    self.assertLen(found[0], 3)
    self._assert_same(found, self._train(_plain([1, 1], 61)))

  @tiers.slow
  def test_the_first_pipeline_that_ends_ends_the_run(self):
    # The one reads 12, 12 and 1; the other 12 and 12.
    read = functools.partial(_read, count=49, is_static=False)
    found = self._train(read, _TWO)
    self.assertLen(found[0], 2)
    self._assert_same(found, self._train(_plain([1, 1]), steps=2))

  @tiers.slow
  def test_a_batch_with_fewer_examples_than_micro_batches(self):
    config = estimator_mp.ShardingConfig("data:2", num_micro_batches=3)
    read = functools.partial(_read, count=52, is_static=False)
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      r"num_micro_batches=3, .* 2 example\(s\).* drop_remainder=True",
    ):
      self._train(read, config)

  def test_features_alone_with_examples_on_another_axis(self):
    def read(input_context=None):
      def transposed(features, label):
        del label
        return {"x": tf.transpose(features["x"])}

      return _read(input_context).map(transposed)

    def model_fn(features, mode):
      return _model_fn(tf.transpose(features["x"]), None, mode)

    def plain():
      return _plain([1, 1])().map(
        lambda features, label: {"x": tf.transpose(features["x"])}
      )

    config = estimator_mp.ShardingConfig(
      "data:2", num_micro_batches=3, batch_axis=[("x$", 1)]
    )
    observer = toolbox.PlacementVerificationHook()
    found = self._train(read, config, _STEPS, [observer], model_fn=model_fn)
    expected = self._train(plain, steps=_STEPS, model_fn=model_fn)
    self._assert_same(found, expected)
    self._assert_no_batch_is_sent(observer)

  @tiers.slow
  def test_a_resumed_run_goes_on_in_each_part(self):
    config = estimator_mp.ShardingConfig("data:4")

    def read(input_context):
      return _read(input_context).shuffle(3, seed=5)

    whole = self._train(read, config, 4)
    model_dir = self._model_dir()
    first, (losses, variables) = (
      self._train(read, config, 2, model_dir=model_dir, saves=True)
      for _ in range(2)
    )
    self._assert_same((first[0] + losses, variables), whole)

  @tiers.slow
  def test_one_task_reads_for_each_of_its_replicas(self):
    model_dir = self._model_dir()
    with mock.patch.dict(os.environ, TF_CONFIG="{}"):
      made = estimator_mp.run_config(_TWO, model_dir, **_RUN)
      estimator = tf.estimator.Estimator(
        estimator_mp.shard_model_fn(_model_fn, _TWO), config=made
      )
      recorder = runs.LossRecorder()
      estimator_mp.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(_read, 1 + _STEPS, [recorder]),
        tf.estimator.EvalSpec(_plain([1]), 1),
      )
    found = recorder.losses, runs.variables_of(model_dir)
    self._assert_same(found, self._train(_plain([1]), steps=_STEPS))


class ContextsTest(parameterized.TestCase):
  """Who reads what, without a session."""

  def _contexts(self, mesh, num_tasks, *worker, job="chief", **others):
    """Returns what an input_fn is called with, and where iterators are."""
    seen = []

    def input_fn(params, input_context, mode):
      seen.append(
        (
          input_context.num_input_pipelines,
          input_context.input_pipeline_id,
          input_context.get_per_replica_batch_size(24),
        )
      )
      self.assertEqual((params, mode), ({"a": 1}, "train"))
      return _read(input_context)

    jobs = {"chief": 1, "worker": num_tasks - 1} if num_tasks > 1 else {}
    jobs |= others
    cluster = clusters.make_cluster(**jobs)
    with clusters.task(cluster, job):
      config = estimator_mp.ShardingConfig(mesh)
      spec = tf.estimator.TrainSpec(input_fn)
      spec = input_by_task.of_train_spec(spec, config, *worker)
      with tf.Graph().as_default() as graph:
        spec.input_fn(params={"a": 1}, mode="train")
    hosts = [
      op.device for op in graph.get_operations() if op.type == "IteratorV2"
    ]
    return seen, hosts

  @parameterized.named_parameters(
    ("one_task", "data:2", 1, [(1, 0, 12)], [""]),
    ("tasks", "data:2", 2, [(2, 0, 12), (2, 1, 12)], ["chief", "worker"]),
    ("more", "data:4", 2, [(2, 0, 6), (2, 1, 6)], ["chief", "worker"]),
    ("unequal", "data:3", 2, [(2, 0, 8), (2, 1, 8)], ["chief", "worker"]),
    (
      "across",
      "data:2,stage:2",
      4,
      [(2, 0, 12), (2, 1, 12)],
      ["chief", "worker1"],
    ),
    ("stages", "stage:2", 2, [(1, 0, 24)], []),
  )
  def test_in_graph(self, mesh, num_tasks, contexts, jobs):
    seen, hosts = self._contexts(mesh, num_tasks)
    self.assertEqual(seen, contexts)
    names = {
      "": "/device:CPU:0",
      "chief": "/job:chief/task:0/device:CPU:0",
      "worker": "/job:worker/task:0/device:CPU:0",
      "worker1": "/job:worker/task:1/device:CPU:0",
    }
    self.assertEqual(hosts, [names[job] for job in jobs])

  def test_between_graph_each_worker_has_its_part(self):
    seen, hosts = self._contexts("data:2", 3, 1, 3, job="worker", ps=2)
    self.assertEqual(seen, [(3, 1, 12)])
    self.assertEqual(hosts, ["/job:worker/task:0/device:CPU:0"])

  def test_processes_of_horovod_divide_the_data_themselves(self):
    spec = tf.estimator.TrainSpec(_read)
    config = estimator_mp.ShardingConfig("stage:2", aggregation="horovod")
    self.assertIs(input_by_task.of_train_spec(spec, config), spec)

  def test_the_log_says_who_reads_what(self):
    with self.assertLogs("tensorflow", "INFO") as logged:
      self._contexts("data:3", 2)
    self.assertIn(
      "Input: a batch is replica(s) 0, 1 from /job:chief/task:0; replica(s) 2 "
      "from /job:worker/task:0, one after another",
      [record.getMessage() for record in logged.records],
    )

  def test_an_input_fn_without_context_is_left_alone(self):
    spec = tf.estimator.TrainSpec(_plain([1]))
    self.assertIs(input_by_task.of_train_spec(spec, _TWO), spec)
    bound = functools.partial(_read, input_context=None)
    spec = tf.estimator.TrainSpec(bound)
    self.assertIs(input_by_task.of_train_spec(spec, _TWO), spec)

  @parameterized.parameters(
    (
      lambda data, _: v1.data.make_one_shot_iterator(data).get_next(),
      "but returned .*; return a tf.data.Dataset of batches for one replica",
    ),
    (
      lambda data, _: data.map(
        lambda x, y: (x, tf.numpy_function(np.abs, [y], tf.float32))
      ),
      "calls Python .* not in /job:worker/task:0; use tf.data ops alone",
    ),
    (
      lambda data, _: data.map(lambda x, y: (x | {"rate": 0.1}, y)),
      "features/rate holds no examples, but .* each of 2 replicas",
    ),
    (
      lambda data, number: data.map(
        lambda x, y: (
          x | {"x": tf.cast(x["x"], [tf.float32, tf.float64][number])},
          y,
        )
      ),
      "for input pipeline 0, but of .* for pipeline 1; return the same",
    ),
    (lambda data, _: data.map(lambda x, y: (x, y, y)), "elements of 3 parts"),
  )
  def test_what_cannot_be_read_is_refused(self, changed, message):
    def input_fn(input_context):
      return changed(_read(input_context), input_context.input_pipeline_id)

    cluster = clusters.make_cluster(chief=1, worker=1)
    with clusters.task(cluster, "chief"), tf.Graph().as_default():
      spec = tf.estimator.TrainSpec(input_fn)
      spec = input_by_task.of_train_spec(spec, _TWO)
      with self.assertRaisesRegex(ValueError, message):
        spec.input_fn()


if __name__ == "__main__":
  absltest.main()
