"""How fast this machine multiplies the matrices that a step of an MLP does.

That is the limit of any way to train it: the products cannot take less time
than on all cores (or devices) at once, each with products of its own.
"""

import itertools
import time
from collections.abc import Sequence

from benchmarks import mlp as mlp_lib

import tensorflow as tf

v1 = tf.compat.v1
# Of a chain: small ones are not worth a larger graph.
_MOST_PRODUCTS = 100


class Products:
  """Matrix products of all kinds and sizes of an MLP's step."""

  def __init__(
    self,
    mlp: mlp_lib.Mlp,
    micro_batches: Sequence[int],
    num_cores: int,
    devices: Sequence[str] = (),
    flops_of_turn: float = 2.5e9,
  ):
    """Makes a session that has done each product once.

    Args:
      mlp: The MLP.
      micro_batches: Into how many the batch may be cut.
      num_cores: How many cores work at the same time.
      devices: Devices to work at the same time instead.
      flops_of_turn: The floating-point operations that each core does of each
        product; enough to be measured.
    """
    self._mlp = mlp
    self._flops_of_turn = flops_of_turn
    places = [*devices] or ["/cpu:0"] * num_cores
    config = v1.ConfigProto(
      inter_op_parallelism_threads=len(places),
      intra_op_parallelism_threads=1,
      use_per_session_threads=True,
    )
    # Nobody reads the products; Grappler would leave them out.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    sizes = sorted({mlp.batch // count for count in (1, *micro_batches)})
    with tf.Graph().as_default():
      self._turns = {
        (kind, rows): self._make_turn(kind, rows, places)
        for kind, rows in itertools.product(mlp.product_flops(), sizes)
      }
      self._session = v1.Session(config=config)
      self._session.run(v1.global_variables_initializer())
    self.seconds()

  def _make_turn(self, kind, rows, places):
    """Returns an op with chains of products, and its FLOPs."""
    width = self._mlp.width
    one = 2.0 * rows * width**2
    length = min(max(1, round(self._flops_of_turn / one)), _MOST_PRODUCTS)
    ends = []
    for place in places:
      with tf.device(place):
        # Numbers of a step: products of zeros, say, may be faster.
        batch, kernel = (
          v1.get_variable(
            f"input_{len(v1.global_variables())}",
            [size, width],
            initializer=v1.random_normal_initializer(stddev=width**-0.5),
          ).read_value()
          for size in (rows, width)
        )
        pair, transposed = {
          "forward": ((batch, kernel), {}),
          "weights": ((batch, batch), {"transpose_a": True}),
          "activations": ((batch, kernel), {"transpose_b": True}),
        }[kind]
        before = []
        for _ in range(length):
          with tf.control_dependencies(before):
            before = [tf.matmul(*pair, **transposed).op]
        ends += before
    return tf.group(ends), length * len(places) * one

  def seconds(self) -> float:
    """Multiplies, and returns the least seconds for the products of a step."""
    rates: dict[str, float] = {}
    for (kind, _), (op, flops) in self._turns.items():
      start = time.perf_counter()
      self._session.run(op)
      rate = flops / (time.perf_counter() - start)
      rates[kind] = max(rate, rates.get(kind, 0.0))
    flops_of = self._mlp.product_flops()
    return sum(flops / rates[kind] for kind, flops in flops_of.items())

  def close(self) -> None:
    """Closes the session."""
    self._session.close()
