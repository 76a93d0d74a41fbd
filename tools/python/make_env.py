"""Makes a virtualenv from a hash-locked requirements file, once.

Run by the `py_env` repository rule, by `bazelw` (Node.js) and by `tools/lint`,
with any Python that the lock is for; it needs nothing but that Python:

    python3 tools/python/make_env.py --home=DIR --lock=FILE --title=TEXT

It prints the path of the virtualenv: a folder of DIR, named after the lock, its
contents and the Python. All checkouts of this user share it, and processes that
want the same one wait for each other. One line is printed to stderr for every
wheel. What pip says goes to a log beside it. If something fails, the last line
says what, and the same line is written to the file that MP_ERROR_FILE names, so
that a caller can repeat it at the very end.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

_WHEEL = re.compile(
  r"^\s*(?:Downloading|Using cached|Processing)\s+(?:\S*/)?"
  r"(?P<name>[^/\s]+?)-(?P<version>[^-/\s]+)-\S+\.whl"
  r"(?:\s+\((?P<size>[\d.]+ \w+)\))?(?:\s|$)"
)
_COLLECTED = re.compile(r"^Installing collected packages: (?P<names>.*)$")
_NO_VERSION = re.compile(
  r"No matching distribution found for (?P<requirement>\S+)"
)
_UNREACHABLE = re.compile(
  r"NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError"
  r"|Max retries exceeded|Connection refused|Name or service not known"
  r"|Temporary failure in name resolution|Connection reset|SSLError"
  r"|Network is unreachable|HTTPSConnectionPool|HTTPConnectionPool"
)
_CAUSE = re.compile(
  r"(?:\[Errno -?\d+\] )?(?P<cause>Connection refused|Name or service not known"
  r"|Temporary failure in name resolution|Connection reset by peer"
  r"|Network is unreachable|No route to host|certificate verify failed"
  r"|[Cc]onnect(?:ion)? time(?:out|d out)|Read timed out|Cannot connect to"
  r" proxy)"
)


class EnvError(Exception):
  """A virtualenv could not be made; the message is one line for the user."""


def wheel_line(line: str) -> str | None:
  """The line to show for one line of pip's output.

  Args:
    line: A line that `pip install` printed.

  Returns:
    Text such as "tf_keras 2.21.0 (1.7 MB)" if pip fetches a wheel, text about
    unpacking if pip starts to install, otherwise None.
  """
  wheel = _WHEEL.match(line)
  if wheel:
    size = f" ({wheel.group('size')})" if wheel.group("size") else ""
    return f"{wheel.group('name')} {wheel.group('version')}{size}"
  collected = _COLLECTED.match(line)
  if collected:
    count = len(collected.group("names").split(","))
    noun = "package" if count == 1 else "packages"
    return f"unpacking {count} {noun} (the long part, please wait)"
  return None


def explain(output: Iterable[str]) -> str:
  """One line that says why pip failed.

  Args:
    output: The lines that `pip install` printed.

  Returns:
    The reason, with what to do about it.
  """
  text = "\n".join(output)
  if "DO NOT MATCH THE HASHES" in text:
    names = re.findall(r"^\s+(\S+==\S+?)(?: from|:| \()", text, re.MULTILINE)
    return (
      f"a downloaded wheel ({', '.join(names) or 'see the log'}) does not have "
      "the checksum of the lock; try again, and ask who runs the package index "
      "if it persists"
    )
  if "No space left on device" in text:
    return "no space left on the disk; an environment takes about 2 GB"
  if _UNREACHABLE.search(text):
    causes = _CAUSE.findall(text)
    cause = causes[-1] if causes else "no connection"
    return (
      f"the Python package index cannot be reached ({cause}); check the "
      "network, or name a mirror with PIP_INDEX_URL, or a proxy with "
      "HTTPS_PROXY"
    )
  missing = _NO_VERSION.search(text)
  if missing:
    version = "%d.%d" % sys.version_info[:2]
    return (
      f"the package index has no wheel of {missing.group('requirement')} for "
      f"Python {version} on {os.uname().sysname} {os.uname().machine}"
    )
  errors = [line for line in text.splitlines() if line.startswith("ERROR:")]
  return errors[-1][len("ERROR:") :].strip() if errors else "pip failed"


def create_venv(path: str) -> str:
  """Creates an empty virtualenv.

  Args:
    path: Folder of the virtualenv; an existing one is replaced.

  Returns:
    Path of the virtualenv's interpreter.

  Raises:
    EnvError: This Python cannot make virtualenvs.
  """
  shutil.rmtree(path, ignore_errors=True)
  made = subprocess.run(
    [sys.executable, "-m", "venv", path],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  python = os.path.join(path, "bin", "python3")
  if made.returncode or not os.path.exists(python):
    if "ensurepip" in made.stdout or "No module named venv" in made.stdout:
      version = "%d.%d" % sys.version_info[:2]
      raise EnvError(
        f"{sys.executable} cannot make virtualenvs; on Debian install "
        f"python{version}-venv (apt-get install python{version}-venv)"
      )
    lines = made.stdout.strip().splitlines() or ["no output"]
    raise EnvError(f"{sys.executable} -m venv {path} failed: {lines[-1]}")
  return python


def install(python: str, lock: str, log_path: str) -> None:
  """Installs exactly the wheels of a lock, and prints a line for each.

  Args:
    python: The virtualenv's interpreter.
    lock: Path of a requirements file with hashes.
    log_path: File that receives everything pip prints.

  Raises:
    EnvError: pip failed.
  """
  command = [python, "-m", "pip", "install", "--no-deps", "--require-hashes"]
  command += ["--only-binary=:all:", "--progress-bar=off"]
  command += ["--disable-pip-version-check", "--no-input", "--no-compile"]
  command += ["-r", lock]
  output = []
  with (
    open(log_path, "w", encoding="utf-8") as log,
    subprocess.Popen(
      command,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      errors="replace",
    ) as pip,
  ):
    assert pip.stdout is not None  # for the type checker: PIPE was asked for
    for line in pip.stdout:
      log.write(line)
      output.append(line.rstrip("\n"))
      shown = wheel_line(line)
      if shown:
        say("  " + shown)
  if pip.returncode:
    raise EnvError(f"{explain(output)}. Log: {log_path}")
  # Of all cores, where pip compiles with one. A package may have files for
  # other versions of Python, so what does not compile is no error.
  library = os.path.join(os.path.dirname(python), "..", "lib")
  subprocess.run(
    [python, "-m", "compileall", "-qq", "-j", "0", library], check=False
  )


def say(text: str) -> None:
  """Prints a line to the person who waits."""
  print("bazelw: " + text, file=sys.stderr, flush=True)


def venv_path(home: str, lock: str) -> str:
  """The folder of a lock's virtualenv for this Python.

  Args:
    home: Folder of all virtualenvs.
    lock: Path of a requirements file such as requirements_tf221.txt.

  Returns:
    A path such as "HOME/tf221-0a1b2c3d4e5f".
  """
  with open(lock, "rb") as file:
    key = hashlib.sha256(file.read())
  key.update(f"{sys.version} {sys.executable}".encode())
  name = os.path.splitext(os.path.basename(lock))[0]
  name = name.removeprefix("requirements_")
  return os.path.join(os.path.abspath(home), f"{name}-{key.hexdigest()[:12]}")


def make(venv: str, lock: str, title: str) -> None:
  """Makes a virtualenv, unless it is complete.

  Args:
    venv: Folder to make.
    lock: Path of a requirements file with hashes.
    title: The name of the virtualenv, for people.

  Raises:
    EnvError: It could not be made.
  """
  os.makedirs(os.path.dirname(venv), exist_ok=True)
  with open(venv + ".lock", "w", encoding="utf-8") as turn:
    fcntl.flock(turn, fcntl.LOCK_EX)
    complete = os.path.join(venv, "complete")
    if os.path.exists(complete):
      return
    started = time.monotonic()
    say("installing %s for Python %d.%d ..." % (title, *sys.version_info[:2]))
    install(create_venv(venv), lock, venv + ".log")
    with open(complete, "w", encoding="utf-8"):
      say("installed %s in %.0f s" % (title, time.monotonic() - started))


def main(argv: Sequence[str]) -> int:
  """Makes the virtualenv and prints its path; returns the exit code."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--home", required=True, help="Folder to make it in.")
  parser.add_argument("--lock", required=True, help="Requirements file.")
  parser.add_argument("--title", required=True, help="What it is, for people.")
  args = parser.parse_args(argv)
  # A virtualenv must not see the packages of the user that runs Bazel.
  for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER"):
    os.environ.pop(name, None)
  os.environ["PYTHONNOUSERSITE"] = "1"
  os.environ.setdefault("PIP_RETRIES", "2")
  venv = venv_path(args.home, args.lock)
  try:
    make(venv, args.lock, args.title)
  except EnvError as error:
    message = f"{args.title} could not be installed: {error}"
    say(message)
    if os.environ.get("MP_ERROR_FILE"):
      with open(os.environ["MP_ERROR_FILE"], "w", encoding="utf-8") as file:
        file.write(f"bazelw: {message}\n")
    return 1
  print(venv)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
