"""What an evaluator takes for the end of a run, and what for a lost chief."""

import os
import pathlib
from unittest import mock

import estimator_mp
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import evaluating
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.distributed import answering, clocks, clusters
from tests.estimator_mp.models import catalogue, data

import tensorflow as tf
from absl.testing import absltest

_CHIEF = tasks_lib.Task("chief", 0)
_JOBS = {"chief": ("a:1",), "worker": ("b:2",)}


def _save(folder, step):
  """Makes a checkpoint the newest one."""
  path = os.path.join(folder, f"model.ckpt-{step}")
  pathlib.Path(f"{path}.index").write_text("")
  tf.compat.v1.train.update_checkpoint_state(folder, path)


def _end(folder):
  """Ends a run of the chief in order."""
  with evaluating.told_of_the_end(folder, tasks_lib.Cluster(_JOBS, _CHIEF)):
    pass


class ToldTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.model_dir = evaluating.ModelDir(self.folder)

  def test_the_end_of_a_run_is_told_until_the_next_one_begins(self):
    self.assertFalse(self.model_dir.has_ended())
    _end(self.folder)
    self.assertTrue(self.model_dir.has_ended())
    chief = tasks_lib.Cluster(_JOBS, _CHIEF)
    with evaluating.told_of_the_end(self.folder, chief):
      self.assertFalse(self.model_dir.has_ended())

  def test_a_chief_that_fails_or_is_asked_to_stop_tells_nothing(self):
    chief = tasks_lib.Cluster(_JOBS, _CHIEF)
    for error in (ValueError, SystemExit):
      with (
        self.assertRaises(error),
        evaluating.told_of_the_end(self.folder, chief),
      ):
        raise error
    self.assertFalse(self.model_dir.has_ended())

  def test_a_worker_tells_nothing(self):
    worker = tasks_lib.Cluster(_JOBS, tasks_lib.Task("worker", 0))
    with evaluating.told_of_the_end(self.folder, worker):
      pass
    self.assertFalse(self.model_dir.has_ended())


class EndTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.clock = clocks.Clock()
    self.enter_context(mock.patch.object(evaluating, "time", self.clock))
    self.answers = True
    self.enter_context(
      mock.patch.object(evaluating, "_answers", lambda _: self.answers)
    )

  def _begin(self, **addresses):
    self.end = evaluating.End(
      evaluating.ModelDir(self.folder), addresses, 600.0
    )

  def _assert_reached(self, *expected):
    found = [self.end.is_reached() for _ in expected]
    self.assertEqual(found, [*expected])

  def test_a_chief_that_has_ended_and_gone(self):
    self._begin(chief="a:1")
    _save(self.folder, 5)
    self._assert_reached(False, False)
    _end(self.folder)
    self._assert_reached(False)
    self.answers = False
    self._assert_reached(True)

  def test_the_last_checkpoint_is_evaluated_first(self):
    self._begin(chief="a:1")
    self._assert_reached(False)
    _save(self.folder, 5)
    _end(self.folder)
    self.answers = False
    self._assert_reached(False, True)

  def test_a_chief_that_is_gone_has_not_ended(self):
    self._begin(chief="a:1")
    self._assert_reached(False)
    self.answers = False
    self._assert_reached(False, False, False)

  def test_a_run_that_ended_before_may_be_another_one(self):
    """Its evaluator has begun before the chief that goes on with it."""
    _save(self.folder, 5)
    _end(self.folder)
    self._begin(chief="a:1")
    self.answers = False
    self._assert_reached(False, False)
    self.clock.sleep(601.0)
    self._assert_reached(True)

  def test_a_chief_without_other_tasks_serves_nothing(self):
    self._begin()
    _save(self.folder, 5)
    self.clock.sleep(601.0)
    self._assert_reached(False, False)
    _end(self.folder)
    self._assert_reached(True)


def _estimator(folder):
  model = catalogue.NETWORKS["mlp_sgd"]
  config = estimator_mp.ShardingConfig("stage:2")
  model_fn = estimator_mp.shard_model_fn(model.model_fn, config)
  return runs.make_estimator(model_fn, config, model.params, folder)


class RunTest(absltest.TestCase):
  @tiers.slow
  def test_an_evaluator_ends_after_a_run_of_fewer_steps(self):
    """Its data had ended before `max_steps`: it waited for ever."""
    folder, evaluated = self.create_tempdir().full_path, []
    with clusters.no_task():
      _estimator(folder).train(data.input_fn, steps=2)
    chief = answering.FakeTask("chief")
    self.addCleanup(chief.close)
    cluster = clusters.make_cluster(worker=1) | {"chief": [chief.address]}

    class End(tf.estimator.SessionRunHook):
      def end(self, session):
        step = tf.compat.v1.train.get_global_step(session.graph)
        evaluated.append(session.run(step))
        _end(folder)
        chief.close()

    with clusters.task(cluster, "evaluator"):
      found = estimator_mp.train_and_evaluate(
        _estimator(folder),
        tf.estimator.TrainSpec(data.input_fn, max_steps=100),
        tf.estimator.EvalSpec(
          data.input_fn, hooks=[End()], start_delay_secs=0, throttle_secs=1
        ),
      )
    self.assertIsNone(found)
    self.assertEqual(evaluated, [2])


if __name__ == "__main__":
  absltest.main()
