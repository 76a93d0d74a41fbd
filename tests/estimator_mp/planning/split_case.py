"""Tests of splits: a graph that trains, and what is to be decided of it."""

from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import frames as frames_lib
from estimator_mp.graph import traversal
from estimator_mp.placement import costs as placement_costs
from estimator_mp.planning import stages as stages_lib
from estimator_mp.planning.split_candidates import Problem
from tests.estimator_mp import graph_case, parts

import tensorflow as tf

v1 = tf.compat.v1


class SplitCase(graph_case.GraphCase):
  """A test whose variables are resources."""

  def setUp(self):
    super().setUp()
    scope = v1.variable_scope(v1.get_variable_scope(), use_resource=True)
    self.enter_context(scope)

  def problem(self, loss, num_parts=2, **options):
    """Returns what is to be decided to train with a loss."""
    fetches = loss, parts.descend(loss)
    live = traversal.ops_run_with(*fetches)
    every = self.graph.get_operations()
    frames = frames_lib.Frames(every)
    ops = frames_lib.in_order([x for x in every if x in live], frames)
    shapes = SymbolicShapes(frames=frames)
    shapes.add(ops)
    trained = [x.op for x in v1.trainable_variables() if len(x.shape) > 1]
    return Problem.of(
      ops,
      shapes,
      frames,
      placement_costs.nominal_bytes(ops),
      num_parts,
      trained,
      lambda variable: variable not in trained,
      stages_lib.backward_of(ops, ops),
      **options,
    )
