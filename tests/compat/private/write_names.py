"""Writes compat/private/names.csv.

    python -m tests.compat.private.write_names PYTHON...

The names are those that compat, and the wheels beside this Python, use. Each
PYTHON, the path of one with a TensorFlow of its own, is asked which it has; of
other releases the table says what it did. The environments that
tests/compat/matrix.py makes serve.
"""

import csv
import importlib.metadata
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping

from compat.private import probe
from tests.compat.private import used_names
from tests.packaging import private_names

_ASKED = """
import json, sys
from compat import legacy_keras, versions
from compat.private import probe
legacy_keras.choose_before_import()
import tensorflow as tf
there = [one for one in json.load(sys.stdin) if probe.is_there(*one)]
print(json.dumps([versions.parse(tf.__version__), there]))
"""

Releases = Mapping[used_names.Name, set[probe.Release]]


def users() -> dict[used_names.Name, str]:
  """Returns the names that are used, and the table's last column of each."""
  of_wheels = {
    wheel: f"{wheel}=={importlib.metadata.version(wheel)}"
    for wheel in used_names.WHEELS
  }
  return {
    name: " ".join(sorted(of_wheels.get(one, one) for one in used))
    for name, used in used_names.used_here().items()
  }


def ask(
  python: str, names: list[used_names.Name]
) -> tuple[probe.Release, set[used_names.Name]]:
  """Returns a TensorFlow's version, and which names it has.

  Args:
    python: the path of a Python.
    names: what to ask for.
  """
  done = subprocess.run(
    [python, "-c", _ASKED],
    input=json.dumps(names),
    env={
      **os.environ,
      "PYTHONPATH": str(private_names.ROOT),
      "TF_CPP_MIN_LOG_LEVEL": "3",
    },
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  )
  release, there = json.loads(done.stdout.splitlines()[-1])
  return tuple(release), {tuple(name) for name in there}


def text(used: Mapping[used_names.Name, str], releases: Releases) -> str:
  """Returns the table.

  Args:
    used: the names, and who uses each.
    releases: those of TensorFlow that have a name.
  """
  table = io.StringIO()
  rows = csv.writer(table, lineterminator="\n")
  rows.writerow(probe.COLUMNS)
  for name, who in sorted(used.items()):
    there = sorted(releases.get(name, ()))
    ends = (
      ["%d.%d" % one for one in (there[0], there[-1])] if there else ["", ""]
    )
    rows.writerow([*name, *ends, who])
  return table.getvalue()


def main() -> None:
  """Asks each Python, and writes the table."""
  used = users()
  releases = {
    (one.module, one.name): {one.first, one.last}
    for one in probe.read()
    if one.first and one.last
  }
  for python in sys.argv[1:]:
    release, there = ask(python, sorted(used))
    for name in there:
      releases.setdefault(name, set()).add(release)
    print("TensorFlow %d.%d has %d of %d" % (*release, len(there), len(used)))
  probe.TABLE.write_text(text(used, releases), encoding="utf-8")


if __name__ == "__main__":
  main()
