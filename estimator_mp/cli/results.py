"""The result of a training run, as a file and for people."""

import dataclasses
import os

from estimator_mp import amounts
from estimator_mp.config import files

_FILE = "result.json"


@dataclasses.dataclass(frozen=True)
class Result:
  """The facts of a finished run.

  Attributes:
    model: The model's name.
    dataset: The data set's name.
    mesh: The mesh of this run, such as "stage:3".
    seed: The seed of this run.
    global_step: The step that was evaluated.
    loss: The loss of the held-out data.
    figure: The metric that says how good the model is, such as "accuracy".
    value: Its value on the held-out data.
    baseline: Something plain that learned from the same data.
    baseline_value: The figure that it achieves.
    beats_baseline: Whether the model's is better.
    seconds: How long this run trained and evaluated.
    steps_per_second: Speed of the training steps, without the first two,
      checkpoints and evaluations; None if it was not measured.
    devices: Bytes of the variables on each device, by canonical device name,
      as observed in a real step; None if it was not observed.
    checkpoint: The checkpoint that was evaluated.
    saved_model: The exported SavedModel; None if nothing was exported.
  """

  model: str
  dataset: str
  mesh: str
  seed: int
  global_step: int
  loss: float
  figure: str
  value: float
  baseline: str
  baseline_value: float
  beats_baseline: bool
  seconds: float
  steps_per_second: float | None
  devices: dict[str, int] | None
  checkpoint: str
  saved_model: str | None

  def lines(self) -> list[str]:
    """Returns the same facts for people."""
    speed = self.steps_per_second
    variables = [
      f"{device} {amounts.amount(size, 'B')}"
      for device, size in (self.devices or {}).items()
    ]
    facts = {
      "model": f"{self.model} on {self.dataset}",
      "mesh": f"{self.mesh}, seed {self.seed}",
      "global step": self.global_step,
      self.figure: (
        f"{self.value:.4f} ({self.baseline}: {self.baseline_value:.4f})"
      ),
      "loss": f"{self.loss:.4f}",
      "steps/s": "not measured" if speed is None else f"{speed:.1f}",
      "seconds": f"{self.seconds:.0f}",
      "variables": ", ".join(variables) or "not observed",
      "checkpoint": self.checkpoint,
    }
    if self.saved_model is not None:
      facts["SavedModel"] = self.saved_model
    return [f"  {name:<12} {value}" for name, value in facts.items()]

  def write(self, model_dir: str) -> str:
    """Writes result.json, in one step; returns its path.

    Args:
      model_dir: The directory of the run.
    """
    path = os.path.join(model_dir, _FILE)
    files.write_json(path, dataclasses.asdict(self))
    return path
