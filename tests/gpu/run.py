"""Tries sharded models on the GPUs of this machine, and writes what became.

    python -m tests.gpu.run --record=h200.json

trains each case of `tests/gpu/cases.py` on GPUs, or on logical GPUs if there
are fewer than six, beside the plain run on a CPU. The record says the date, the
cards, what was equal, by how much, and where everything really ran; `--table`
prints one as docs/gpus.md quotes it. The exit code is 1 if a case was not
equal, 2 if there is no GPU.

`--device_type=CPU` tries the same on virtual CPU devices, which shows that this
program works, and nothing of GPUs.
"""

import dataclasses
import datetime
import json
import os
import platform
import re
import sys
import tempfile

from estimator_mp import amounts
from estimator_mp.config import files
from tests.gpu import cases as cases_lib
from tests.gpu import trial

import tensorflow as tf
from absl import app, flags

_DEVICE_TYPE = flags.DEFINE_enum(
  "device_type", "GPU", ["GPU", "CPU"], "What the cases run on."
)
_RECORD = flags.DEFINE_string("record", None, "The file to write.")
_TABLE = flags.DEFINE_string("table", None, "A record to print, and no more.")
_CASES = flags.DEFINE_string("cases", "", "Only those with such a name.")
_LOGICAL_GPU_BYTES = flags.DEFINE_integer(
  "logical_gpu_bytes", 2**31, "The memory of each logical GPU.", 2**20
)
_STAND_INS = flags.DEFINE_list(
  "stand_ins", [], "Libraries that are here by name only, such as cudnn."
)


def record(trials, kind, stand_ins=()):
  """Returns what is written of trials.

  Args:
    trials: The trials.
    kind: The type of the devices that they ran on.
    stand_ins: Libraries that were there by name only.
  """
  cards = tf.config.list_physical_devices("GPU") if kind == "GPU" else []
  details = map(tf.config.experimental.get_device_details, cards)
  return {
    "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    "device_type": kind,
    "cards": [x.get("device_name", "unknown") for x in details],
    "num_devices": trial.NUM_DEVICES,
    "tensorflow": tf.__version__,
    "python": platform.python_version(),
    "stand_ins": [*stand_ins],
    "tf32": False,
    "tolerance": trial.TOLERANCES[kind],
    "cases": [dataclasses.asdict(x) for x in trials],
  }


def table(recorded):
  """Returns the lines of a record as a guide quotes them."""
  cards = recorded["cards"]
  on = f"{len(cards)} x {cards[0]}" if cards else "virtual CPU devices, no GPU"
  missing = ", ".join(recorded["stand_ins"]) or "none"
  yield f"{recorded['date']}, {on}, TensorFlow {recorded['tensorflow']},"
  yield f"TF32 off, tolerance {recorded['tolerance']:.0e}, without: {missing}"
  yield ""
  yield "| case | mesh | result | largest difference | largest device |"
  yield "| --- | --- | --- | --- | --- |"
  for case in recorded["cases"]:
    result = ": ".join(filter(None, (case["result"], case["reason"])))
    difference = case["difference"]
    off = "" if difference is None else f"{difference:.1e}"
    held = [x["peak_live_bytes"] for x in case["devices"].values()]
    most = amounts.amount(max(held), "B") if held else ""
    yield f"| {case['name']} | {case['mesh']} | {result} | {off} | {most} |"


def main(arguments):
  """Tries the cases."""
  del arguments
  if _TABLE.value:
    with open(_TABLE.value, encoding="utf-8") as file:
      print("\n".join(table(json.load(file))))
    return 0
  kind = _DEVICE_TYPE.value
  if kind == "GPU" and not trial.num_cards():
    print("no GPU: TensorFlow sees none on this machine", file=sys.stderr)
    return 2
  stand_ins = _STAND_INS.value
  trials = []
  with tempfile.TemporaryDirectory() as folder:
    try_one = trial.Tryer(folder, kind, _LOGICAL_GPU_BYTES.value, stand_ins)
    for name, case in cases_lib.CASES.items():
      if re.search(_CASES.value, name):
        trials.append(try_one(name, case))
        done = trials[-1]
        why = f": {done.reason}" if done.reason else ""
        print(f"{name} {done.result}{why}, {done.seconds:.0f} s", flush=True)
        if _RECORD.value:
          # After each, so that a machine that is taken back leaves something.
          text = json.dumps(record(trials, kind, stand_ins), indent=2)
          files.write_atomically(os.path.abspath(_RECORD.value), text + "\n")
  print("\n".join(table(record(trials, kind, stand_ins))))
  return int(any(x.result in ("different", "failed") for x in trials))


if __name__ == "__main__":
  app.run(main)
