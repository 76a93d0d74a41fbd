"""Tasks of a cluster, and what ends in which order; plain data."""

import json
import signal

from estimator_mp.cli.launching import endings, tasks

from absl.testing import absltest, parameterized


def names(some):
  return [*map(str, some)]


class TasksTest(parameterized.TestCase):
  def test_one_task_is_the_chief(self):
    self.assertEqual(names(tasks.make_tasks(1, 0, False)), ["chief 0"])

  @parameterized.parameters(
    (3, 0, False, ["chief 0", "worker 0", "worker 1"], ["chief 0"]),
    (
      2,
      0,
      True,
      ["chief 0", "worker 0", "evaluator 0"],
      ["chief 0", "evaluator 0"],
    ),
    (
      2,
      2,
      True,
      ["chief 0", "worker 0", "ps 0", "ps 1", "evaluator 0"],
      ["chief 0", "worker 0", "evaluator 0"],
    ),
  )
  def test_who_ends_without_being_told(self, count, ps, evaluator, all_, own):
    made = tasks.make_tasks(count, ps, evaluator)
    self.assertEqual(names(made), all_)
    self.assertEqual(names(tasks.ending_by_themselves(made)), own)

  def test_tf_config_is_what_tf_estimator_reads(self):
    made = tasks.make_tasks(2, 1, True)
    configs = [
      json.loads(tasks.tf_config(task, made, ["a:1", "b:2", "c:3", "d:4"]))
      for task in made
    ]
    cluster = {
      "chief": ["a:1"],
      "worker": ["b:2"],
      "ps": ["c:3"],
      "evaluator": ["d:4"],
    }
    self.assertEqual([config["cluster"] for config in configs], [cluster] * 4)
    self.assertEqual(
      [config["task"] for config in configs],
      [
        {"type": "chief", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "ps", "index": 0},
        {"type": "evaluator", "index": 0},
      ],
    )

  def test_a_cluster_without_workers_names_none(self):
    (chief,) = made = tasks.make_tasks(1, 0, False)
    config = json.loads(tasks.tf_config(chief, made, ["a:1"]))
    self.assertEqual(config["cluster"], {"chief": ["a:1"]})


class EndingsTest(parameterized.TestCase):
  def _phases(self, ending):
    return [(names(phase.tasks), phase.signal) for phase in ending.phases]

  def test_what_serves_is_ended_when_the_chief_has_ended_well(self):
    made = tasks.make_tasks(2, 1, False)
    ending = endings.when_done(made)
    self.assertEqual(ending.exit_code, 0)
    self.assertEqual(
      self._phases(ending),
      [
        (["chief 0", "worker 0"], None),
        (["chief 0", "worker 0", "ps 0"], None),
        (["chief 0", "worker 0", "ps 0"], signal.SIGTERM),
      ],
    )

  def test_who_has_served_and_failed_ends_all_at_once(self):
    _, worker = made = tasks.make_tasks(2, 0, False)
    ending = endings.when_failed(made, worker, "worker 0 ended", 7)
    self.assertEqual(ending.exit_code, 7)
    self.assertEqual(
      self._phases(ending), [(["chief 0", "worker 0"], signal.SIGTERM)]
    )

  @parameterized.parameters(0, 1)
  def test_an_evaluator_that_has_failed_lets_the_chief_save(self, ps):
    *_, evaluator = made = tasks.make_tasks(1, ps, True)
    ending = endings.when_failed(made, evaluator, "evaluator 0 ended", 7)
    self.assertEqual(
      self._phases(ending),
      [
        (["chief 0", "evaluator 0"], signal.SIGTERM),
        (names(made), signal.SIGTERM),
      ],
    )

  def test_ctrl_c_lets_the_chief_save_while_workers_serve(self):
    made = tasks.make_tasks(3, 0, False)
    ending = endings.when_told(made, signal.SIGINT)
    self.assertEqual((ending.reason, ending.exit_code), ("SIGINT", 130))
    self.assertEqual(
      self._phases(ending),
      [(["chief 0"], signal.SIGINT), (names(made), signal.SIGTERM)],
    )


if __name__ == "__main__":
  absltest.main()
