"""Runs Python programs in processes of their own, for tests."""

import os
import subprocess
import sys

import compat

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(compat.__file__)))


def environment(**variables: str | None) -> dict[str, str]:
  """Returns this process's environment, fit for a child.

  Args:
    **variables: what to set, or with None to remove, in addition.
  """
  result = dict(os.environ)
  # Whether Keras was chosen in this process must not decide it for the child.
  result.pop("TF_USE_LEGACY_KERAS", None)
  result.pop("TF_CONFIG", None)
  result["TF_CPP_MIN_LOG_LEVEL"] = "3"
  paths = [REPOSITORY, *filter(None, sys.path)]
  result["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
  for name, value in variables.items():
    if value is None:
      result.pop(name, None)
    else:
      result[name] = value
  return result


def run(
  *arguments: str,
  env: dict[str, str] | None = None,
  cwd: str | None = None,
) -> subprocess.CompletedProcess[str]:
  """Runs Python to its end.

  Args:
    *arguments: those of the interpreter, such as "-c" and a program.
    env: the environment; `environment()` by default.
    cwd: the working directory.

  Returns:
    The finished process, with its output as text.
  """
  return subprocess.run(
    [sys.executable, *arguments],
    env=environment() if env is None else env,
    cwd=cwd,
    capture_output=True,
    text=True,
    timeout=600,
    check=False,
  )


def run_with_fakes(
  program: str, directory: str, modules: dict[str, str]
) -> subprocess.CompletedProcess[str]:
  """Runs a program that sees compat and made-up modules, and nothing else.

  Args:
    program: Python source.
    directory: where the modules may be written.
    modules: maps a top-level module's name to its source.

  Returns:
    The finished process, with its output as text.
  """
  for name, source in modules.items():
    with open(os.path.join(directory, f"{name}.py"), "w") as module:
      module.write(source)
  paths = os.pathsep.join([REPOSITORY, directory])
  return run("-S", "-c", program, env=environment(PYTHONPATH=paths))
