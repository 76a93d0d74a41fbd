"""Which kernels a TensorFlow for GPUs has, on a machine that has none for them.

A build for CPUs knows no kernel for GPUs, and so says nothing of where an op
could run on one. `kernels_221.txt` has what TensorFlow 2.21.0 for GPUs has
registered, for GPUs and for any device: a line for each kernel, with its type
of op, its type of device, and the values that it allows attributes to have
(numbers of dtypes, mostly). With such a build, which needs no GPU for it,

    python -m tests.gpu.kernels

writes the file again.
"""

import ast
import contextlib
import functools
import os
import pathlib
from unittest import mock

import estimator_mp  # noqa: F401
from compat.private import op_registry

_FILE = pathlib.Path(os.path.dirname(__file__), "kernels_221.txt")
_KINDS = ("GPU", "DEFAULT")


def registered():
  """Yields the lines of this TensorFlow's kernels, sorted."""
  for name in sorted(op_registry.registered_ops_by_name()):
    for kind in _KINDS:
      yield from sorted(
        " ".join([name, kind, *_texts(kernel)])
        for kernel in _merged(op_registry._kernels(name, kind))
      )


def _merged(kernels):
  """Makes kernels one that differ in what they allow one attribute to be."""
  names = {name for kernel in kernels for name in kernel}
  for varied in sorted(names):
    together = {}
    for kernel in kernels:
      rest = frozenset((x, y) for x, y in kernel.items() if x != varied)
      key = (rest, varied in kernel)
      together.setdefault(key, set()).update(kernel.get(varied, ()))
    kernels = [
      dict(rest) | ({varied: frozenset(values)} if has_it else {})
      for (rest, has_it), values in together.items()
    ]
  return kernels


def _texts(kernel):
  return [
    f"{attribute}={sorted(values)!r}".replace(" ", "")
    for attribute, values in sorted(kernel.items())
  ]


@functools.cache
def recorded():
  """Returns the kernels of the file, by types of ops and devices."""
  found = {}
  for line in _FILE.read_text(encoding="utf-8").splitlines():
    name, kind, *texts = line.split()
    pairs = (text.split("=", 1) for text in texts)
    kernel = {x: frozenset(ast.literal_eval(values)) for x, values in pairs}
    found.setdefault((name, kind), []).append(kernel)
  return found


@contextlib.contextmanager
def as_if_for_gpus():
  """Lets this TensorFlow know the kernels of one for GPUs."""
  own = op_registry._kernels

  def kernels(op_type, device_type):
    if device_type in _KINDS:
      return recorded().get((op_type, device_type), [])
    return own(op_type, device_type)

  with mock.patch.object(op_registry, "_kernels", kernels):
    yield


if __name__ == "__main__":
  if not op_registry._kernels("MatMul", "GPU"):
    raise SystemExit("this TensorFlow is not for GPUs: it has no kernels")
  _FILE.write_text("\n".join([*registered(), ""]), encoding="utf-8")
