"""The MLP that is measured beside its bounds and other systems, as numbers.

Without TensorFlow, so that a program of another system takes the same weights
and the same batch.
"""

import dataclasses
import json

import numpy as np

LEARNING_RATE = 0.01
# Sums of the same numbers in another order.
RELATIVE_TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Mlp:
  """Layers of as many units as there are features, each with a ReLU.

  The loss is the mean square of what the last layer is off, the optimizer is
  gradient descent.

  Attributes:
    layers: How many.
    width: Units of each.
    batch: Examples of a step.
  """

  layers: int
  width: int
  batch: int

  def features(self) -> np.ndarray:
    """Returns the batch of each step, [batch, width] of float32."""
    return self._normal(1, self.batch)

  def labels(self) -> np.ndarray:
    """Returns what the last layer should be, [batch, width] of float32."""
    return self._normal(2, self.batch)

  def kernel(self, layer: int) -> np.ndarray:
    """Returns a layer's initial weights, [width, width] of float32.

    They keep the size of activations: He et al., 2015, arXiv:1502.01852.
    """
    scale = np.float32((2 / self.width) ** 0.5)
    return scale * self._normal(3 + layer, self.width)

  def _normal(self, seed: int, rows: int) -> np.ndarray:
    random = np.random.RandomState(seed)
    return random.randn(rows, self.width).astype(np.float32)

  def name(self, layer: int) -> str:
    """Returns the name of a layer's variables."""
    return f"layer_{layer}"

  def stage(self, layer: int, stages: int) -> int:
    """Returns the stage that a layer is on, of so many."""
    return layer * stages // self.layers

  def product_flops(self) -> dict[str, float]:
    """Returns the floating-point operations of a step's products, by kind.

    "forward" is x w, "weights" the gradient x^T dy, "activations" dy w^T, which
    the first layer does not need.
    """
    one = 2.0 * self.batch * self.width**2
    return {
      "forward": one * self.layers,
      "weights": one * self.layers,
      "activations": one * (self.layers - 1),
    }

  def to_json(self) -> str:
    """Returns it as a text, for a program of another system."""
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def from_json(cls, text: str) -> "Mlp":
    """Returns what `to_json` wrote."""
    return cls(**json.loads(text))


def check_losses(name: str, losses, expected) -> float:
  """Returns how far losses are from others, relative to these.

  Args:
    name: Whose losses.
    losses: One for each step.
    expected: The others; as many, or more.

  Raises:
    RuntimeError: If they differ by more than rounding.
  """
  expected = np.asarray(expected[: len(losses)])
  difference = float(np.max(np.abs(np.asarray(losses) / expected - 1)))
  # Also if it is no number.
  if not difference <= RELATIVE_TOLERANCE:
    raise RuntimeError(
      f"the losses of {name} differ from those of one device by "
      f"{difference:.2g} of them, more than {RELATIVE_TOLERANCE:g}: "
      f"{[*losses]} and {expected.tolist()}; so it does not compute the same"
    )
  return difference
