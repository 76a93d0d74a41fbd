"""What a traced step says of the devices that ran it."""

from estimator_mp.observe import executed_graph

import tensorflow as tf
from absl.testing import absltest

_TASK = "/job:localhost/replica:0/task:0"


class NodeStatsTest(absltest.TestCase):
  def test_what_a_gpu_s_tracer_adds_is_left_out(self):
    """The names are those of a step on an H200, of TensorFlow 2.21."""
    metadata = tf.compat.v1.RunMetadata()
    for device, ops in {
      f"{_TASK}/device:GPU:1": ["MatMul", "RecvTensor"],
      f"{_TASK}/device:CPU:0": ["Sum"],
      "/device:GPU:1/stream:13": ["MatMul:MatMul"],
      "/device:GPU:1/stream:all": ["MatMul:MatMul"],
      "/device:GPU:1/stream:14<MemcpyH2D>": ["_arg_0/_0:_Send"],
      "/device:GPU:1/memcpy": ["_arg_0/_0:_Send"],
    }.items():
      stats = metadata.step_stats.dev_stats.add(device=device)
      for name in ops:
        stats.node_stats.add(node_name=name)
    self.assertEqual(
      [(x, node.node_name) for x, node in executed_graph.node_stats(metadata)],
      [("/device:GPU:1", "MatMul"), ("/device:CPU:0", "Sum")],
    )


if __name__ == "__main__":
  absltest.main()
