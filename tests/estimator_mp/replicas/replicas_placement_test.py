"""Where replicas hold and do what, as a session ran it; and what is refused."""

import collections
import gc
import weakref

import estimator_mp
from estimator_mp.graph import traversal
from estimator_mp.observe import verification
from estimator_mp.planning import sharding_plan
from tests.estimator_mp import programs
from tests.estimator_mp.models import catalogue, data, shapes

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = (data.FEATURES, data.LABELS)
_SHARDED = {"optimizer_state": "sharded"}


def _config(mesh, num_micro_batches=1, **fields):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, **fields
  )


class PlacementTest(parameterized.TestCase):
  """What each device holds and does, as a session ran it."""

  def _contents(self, name, config):
    """Returns what devices executed in a step, and the program."""
    model = catalogue.PURE_NETWORKS[name]
    batch = programs.examples(_BATCH, 0, 24)
    program = programs.Program(model.model_fn, config, batch, model.params)
    metadata = program.trace(batch)
    return verification.contents_of_devices(metadata.partition_graphs), program

  def test_replicated(self):
    """Each replica holds all weights and slots of its stages."""
    found, _ = self._contents("mlp_adam", _config("data:2,stage:2"))
    first, second, *others = (
      found[f"/device:CPU:{i}"].variables for i in range(4)
    )
    for of_stage, of_other in zip((first, second), others, strict=True):
      # Scalars, such as Adam's powers of beta, are there once.
      large = [
        name
        for name in of_stage
        if not name.endswith("_power") and name != "global_step"
      ]
      self.assertGreaterEqual(len(large), 6)
      self.assertCountEqual(
        [
          name.removeprefix("replica_1/").removeprefix("update/")
          for name in of_other
        ],
        large,
      )

  def test_a_graph_is_freed(self):
    """What is remembered of a graph does not keep it."""
    model = catalogue.PURE_NETWORKS["mlp_sgd"]
    batch = programs.examples(_BATCH, 0, 24)
    program = programs.Program(
      model.model_fn, _config("data:2,stage:2"), batch, model.params
    )
    graph = weakref.ref(program.graph)
    program.session.close()
    del program
    gc.collect()
    self.assertIsNone(graph())

  def test_shared(self):
    """Replica 0 holds all variables, and the others none."""
    found, _ = self._contents(
      "mlp_adam", _config("data:2,stage:2", variables="shared")
    )
    for i in range(4):
      self.assertEqual(bool(found[f"/device:CPU:{i}"].variables), i < 2)
      self.assertIn("MatMul", "".join(found[f"/device:CPU:{i}"].op_types))

  def test_sharded(self):
    """Each of two replicas holds half of the slots, as near as can be."""

    def is_slot(name):
      return name.endswith(("/Adam", "/Adam_1"))

    found, program = self._contents("mlp_adam", _config("data:2", **_SHARDED))
    sizes = {
      v.op.name: v.shape.num_elements()
      for v in program.graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
      if is_slot(v.op.name)
    }
    slots = [
      sum(sizes.get(name, 0) for name in of_device.variables)
      for of_device in found.values()
    ]
    self.assertLen(slots, 2)
    self.assertEqual(sum(slots), sum(sizes.values()))
    self.assertLessEqual(abs(slots[0] - slots[1]), max(sizes.values()))

  @parameterized.named_parameters(
    ("sharded", _SHARDED, True), ("replicated", {}, False)
  )
  def test_sparse_updates_send_rows(self, fields, has_copies):
    """An embedding table is not copied as a whole when some rows change."""
    batch = programs.examples(data.BATCH, 0, 24)
    program = programs.Program(
      shapes.two_lookups, _config("data:2", **fields), batch
    )
    program.step(batch)
    in_step = traversal.ops_run_with(program.spec.train_op)
    types = collections.Counter()
    graph = program.graph
    for variable, names in sharding_plan.get_plan(graph).mirrors.items():
      if "table" in variable:
        for mirror in map(graph.get_tensor_by_name, names):
          types.update(op.type for op in mirror.consumers() if op in in_step)
    self.assertEqual(types["ResourceScatterUpdate"] > 0, has_copies)
    self.assertEqual(types["ResourceScatterAdd"] > 0, not has_copies)
    self.assertEqual(types["AssignVariableOp"], 0)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "horovod",
      {"mesh": "data:2,stage:2", "aggregation": "horovod"},
      'aggregation="horovod" .* mesh data:2,stage:2 has 2; ',
    ),
    (
      "nccl",
      {"aggregation": "nccl"},
      "'nccl' .* /device:CPU:0, .*'copy', or 'auto'",
    ),
    (
      "fraction",
      {"top_k_fraction": 0.0},
      "top_k_fraction=0.0 .* such as 0.001",
    ),
    (
      "sharded",
      {"aggregation": "ring", **_SHARDED},
      "aggregation='ring', .*optimizer_state='sharded'",
    ),
  )
  def test_what_does_not_fit(self, fields, message):
    with self.assertRaisesRegex(ValueError, message):
      estimator_mp.ShardingConfig(**{"mesh": "data:2", **fields})


if __name__ == "__main__":
  absltest.main()
