"""What further replicas get copies of, and where: on small graphs."""

import estimator_mp
from estimator_mp.graph import ledger, traversal
from estimator_mp.lower import replicas as replicas_lib

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class ReplicasTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self.enter_context(v1.device("/device:CPU:0"))

  def _replicas(self, mesh, **fields):
    config = estimator_mp.ShardingConfig(mesh, **fields)
    self._ledger = ledger.Ledger(self._graph)
    return replicas_lib.Replicas(config, config.create_mesh(), self._ledger)

  def _variable(self, name, size):
    return v1.get_variable(
      name, [size], initializer=v1.zeros_initializer(), use_resource=True
    )

  def _mirror(self, replicas, *variables):
    """Mirrors variables and a penalty on each; returns the penalties."""
    penalties = [tf.nn.l2_loss(v.read_value()).op for v in variables]
    above = traversal.ops_run_with(*penalties)
    replicas.mirror([op for op in self._graph.get_operations() if op in above])
    return penalties

  def _copies_of_penalties(self):
    mirrors = self._ledger.with_role(ledger.Role.MIRROR)
    return [op for op in mirrors if op.type == "L2Loss"]

  def test_homes_of_micro_batches(self):
    homes = self._replicas("data:2,stage:2").homes(2)
    self.assertEqual(
      [(home.scope, home.number) for home in homes],
      [
        ("micro_batch_1", 1),
        ("replica_1/micro_batch_0", 2),
        ("replica_1/micro_batch_1", 3),
      ],
    )
    self.assertEqual(
      [home.device("/device:CPU:1") for home in homes],
      ["/device:CPU:1", "/device:CPU:3", "/device:CPU:3"],
    )

  def test_mirrored(self):
    replicas = self._replicas("data:3")
    (penalty,) = self._mirror(replicas, self._variable("v", 4))
    copies = self._copies_of_penalties()
    self.assertNotIn(penalty, copies)
    for replica, copy in enumerate(copies, 1):
      variable = self._graph.get_operation_by_name(f"replica_{replica}/v")
      self.assertIn(variable, traversal.ops_run_with(copy))
      for op in (variable, copy):
        self.assertEqual(op.device, f"/device:CPU:{replica}")
    self.assertEqual(
      replicas.mirrors, {"v": ("replica_1/v:0", "replica_2/v:0")}
    )
    self.assertEmpty(replicas.zero_shards)

  @parameterized.named_parameters(
    ("shared", "data:2", {"variables": "shared"}), ("one", "stage:2", {})
  )
  def test_nothing_is_mirrored(self, mesh, fields):
    replicas = self._replicas(mesh, **fields)
    variable = self._variable("v", 4)
    num_ops = len(self._graph.get_operations())
    penalties = self._mirror(replicas, variable)
    above = self._graph.get_operations()[num_ops:]
    self.assertContainsSubset(above, traversal.ops_run_with(*penalties))
    self.assertEmpty(replicas.mirrors)

  def test_a_variable_of_a_zero_shard_moves(self):
    """Its own replica then reads it, and no mirror."""
    replicas = self._replicas("data:3", optimizer_state="sharded")
    variables = [self._variable(name, 4) for name in "abc"]
    self._mirror(replicas, *variables)
    self.assertEqual(replicas.zero_shards, {"a": 0, "b": 1, "c": 2})
    for replica, variable in enumerate(variables):
      self.assertEqual(variable.op.device, f"/device:CPU:{replica}")
      self.assertEqual(
        replicas.mirrors[variable.op.name],
        tuple(
          f"replica_{other}/{variable.op.name}:0"
          for other in (1, 2)
          if other != replica
        ),
      )
    copies = self._copies_of_penalties()
    (own,) = (
      op for op in copies if variables[1].op in traversal.ops_run_with(op)
    )
    self.assertEqual(own.device, "/device:CPU:1")


if __name__ == "__main__":
  absltest.main()
