"""Runs the models of one program and writes what came out, as JSON.

    python -m tests.compat.packages.run PROGRAM OUT.json [MESH]

from the root of the repository. A mesh, "stage:3", shards each model.

TensorFlow 1.15.5 recorded what today's has to give (recorded/PROGRAM.json):

    python3.7 -m venv v115
    requirements=tests/compat/packages/requirements_1_15.txt
    uv pip install --python v115/bin/python \\
        -r $requirements --override $requirements
    v115/bin/python -m tests.compat.packages.run PROGRAM \\
        tests/compat/packages/recorded/PROGRAM.json
"""

import importlib
import json
import os
import sys
import tempfile

from tests.compat.packages import harness, programs

import tensorflow as tf


def _shard(estimator, mesh):
  import estimator_mp  # Not on TensorFlow 1.15.

  return estimator_mp.shard_estimator(
    estimator, estimator_mp.ShardingConfig(mesh=mesh)
  )


def _text(found):
  """JSON with a line for each kind of result of each model."""
  models = []
  for model, results in sorted(found.items()):
    if isinstance(results, dict):
      lines = [
        '"%s": %s' % (kind, json.dumps(value, sort_keys=True))
        for kind, value in sorted(results.items())
      ]
      models.append('"%s": {\n  %s\n}' % (model, ",\n  ".join(lines)))
    else:
      models.append('"%s": %s' % (model, json.dumps(results)))
  return "{\n%s\n}\n" % ",\n".join(models)


def main(program, path, mesh=None):
  """Runs the program's models, or the one of MODEL in the environment."""
  module = importlib.import_module("%s.%s" % (programs.__name__, program))
  found = {"tensorflow": tf.__version__}
  for name, make_model in harness.models_of(module).items():
    if os.environ.get("MODEL", name) != name:
      continue
    with tempfile.TemporaryDirectory() as directory:
      model = make_model(directory)
      if mesh is not None:
        model = model._replace(estimator=_shard(model.estimator, mesh))
      found[name] = harness.run(model)
    print(name, found[name]["losses"], flush=True)
  with open(path, "w") as file:
    file.write(_text(found))


if __name__ == "__main__":
  main(*sys.argv[1:])
