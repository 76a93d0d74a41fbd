"""The trace command: what a training step really does, as a picture.

  bazel run //estimator_mp:trace -- --mesh=stage:3 --num_micro_batches=8 \
      --schedule=1f1b --out=/tmp/trace

It trains the train command's model for some steps, keeps nothing of it, and
draws the last step. `--help` lists the flags.
"""

import sys

from estimator_mp.cli.train_flags import TRACE

main = TRACE.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
