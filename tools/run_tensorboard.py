"""TensorBoard of the environment: `./bazelw run //tools:tensorboard -- FLAGS`.

A relative --logdir is taken from the folder in which bazelw was started.
"""

import os
import sys

from tensorboard import main as tensorboard_main

if __name__ == "__main__":
  os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
  sys.argv[0] = "tensorboard"
  tensorboard_main.run_main()
