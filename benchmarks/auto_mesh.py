"""What mesh="auto" chooses, beside twenty configurations that people would try.

The machine is measured first, as by `estimator-mp measure`, and the ops of each
plain model, by `estimator_mp.measure_costs`. Then all train in turns, so that
what disturbs one disturbs all. The aim: the choice is at most
1.05 times as slow as the best of the twenty.

  ./bazelw run //benchmarks:auto_mesh
"""

import contextlib
import re
import statistics
from typing import Any

import estimator_mp
from benchmarks import figures, plan_accuracy, planned_models
from estimator_mp.machines import measure
from estimator_mp.search import choice

import tensorflow as tf
from absl import app, flags

_MODELS = flags.DEFINE_string(
  "tried", "mlp|resnet18|bert4|dlrm", "An expression for names of models."
)
_DEVICES = tuple(f"/cpu:{i}" for i in range(4))
_BY_HAND: tuple[dict[str, Any], ...] = (
  {"mesh": "stage:1"},
  {"mesh": "stage:2"},
  *({"mesh": "stage:2", "num_micro_batches": m} for m in (2, 4, 8)),
  *({"mesh": "stage:4", "num_micro_batches": m} for m in (4, 8)),
  *(
    {"mesh": "stage:2", "num_micro_batches": 4, "schedule": x}
    for x in ("zb1p", "gpipe")
  ),
  {"mesh": "stage:2", "num_micro_batches": 4, "recompute": "always"},
  *({"mesh": f"data:{n}"} for n in (2, 4)),
  {"mesh": "data:2", "num_micro_batches": 2},
  {"mesh": "data:2", "optimizer_state": "sharded"},
  *({"mesh": f"model:{n}"} for n in (2, 4)),
  {"mesh": "data:2,stage:2"},
  {"mesh": "data:2,stage:2", "num_micro_batches": 4},
  {"mesh": "stage:2,model:2", "num_micro_batches": 2},
  {"mesh": "data:2,model:2"},
)


def _chosen(model, machine):
  """Returns the ranking of meshes for a model on a machine."""
  specs = tf.nest.map_structure(
    tf.type_spec_from_value,
    {
      "features": tf.nest.map_structure(tf.constant, model.features),
      "labels": tf.constant(model.labels),
    },
  )
  batch_size = len(model.labels)
  costs = estimator_mp.measure_costs(model.model_fn, model.input_fn, steps=9)
  config = estimator_mp.ShardingConfig(
    mesh="auto", devices=_DEVICES, measured_costs=costs
  )
  return choice.search(
    lambda x: model.model_fn(**x, mode="train"),
    specs,
    config,
    machine,
    batch_size,
  )


def _seconds(model, options):
  """Returns the median seconds of a step of each configuration, in turns."""
  with contextlib.ExitStack() as stack:
    steps = [
      stack.enter_context(
        plan_accuracy.training_step(model, estimator_mp.ShardingConfig(**x))
      )[0]
      for x in options
    ]
    return plan_accuracy.in_turns(steps)


def main(argv: list[str]) -> None:
  """Prints all step times of each model, and saves the ratios."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  machine, _ = measure.measure(1.0)
  found = []
  for model in planned_models.models():
    if not re.fullmatch(_MODELS.value, model.name):
      continue
    best = _chosen(model, machine).best
    options = [*_BY_HAND]
    if best.chosen not in options:  # The same one twice differs by a tenth.
      options.append(best.chosen)
    turns = _seconds(model, options)
    seconds = [statistics.median(x) for x in turns]
    chosen = options.index(best.chosen)
    print(f"{model.name}: {best.line()}: {1e3 * seconds[chosen]:.2f} ms")
    for i in sorted(range(len(_BY_HAND)), key=lambda i: seconds[i]):
      words = ", ".join(f"{key}={value}" for key, value in options[i].items())
      print(f"  {1e3 * seconds[i]:8.2f} ms  {words}")
    least = min(range(len(_BY_HAND)), key=lambda i: seconds[i])
    ratios = [a / b for a, b in zip(turns[chosen], turns[least], strict=True)]
    found.append(
      figures.Figure(
        f"{model.name}: {best.mesh} / the best of twenty",
        "",
        (statistics.median(ratios),),
        (1.05,),
        is_lower_better=True,
        is_aim=True,
      )
    )
    print(f"  ratio {found[-1].value:.3f}", flush=True)
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
