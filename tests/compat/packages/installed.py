"""The packages of requirements.txt, on which nothing here depends."""

import functools
import os
import subprocess
import sys
import tempfile


@functools.cache
def folder() -> str:
  """Returns the folder that has the packages, without what they need.

  That of the environment variable PACKAGES, or one in which pip puts them now.
  """
  given = os.environ.get("PACKAGES")
  if given:
    return given
  made = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
  requirements = os.path.join(os.path.dirname(__file__), "requirements.txt")
  install = ("pip", "install", "--quiet", "--no-deps", "--target", made)
  subprocess.run(
    [sys.executable, "-m", *install, "-r", requirements], check=True
  )
  return made


def add_to_path() -> None:
  """Lets this process import the packages, after all that it has itself."""
  if folder() not in sys.path:
    sys.path.append(folder())
