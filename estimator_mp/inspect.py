"""The inspect command: the partition that a model_fn would get, and its costs.

  python -m estimator_mp.inspect --model_fn=my_model:model_fn \
      --features='ids:int32[?,128]' --labels='int32[?,1]' --mesh=stage:4

`--help` lists the flags. `estimator_mp.inspect_model_fn` is the same for
programs.
"""

import sys

from estimator_mp.cli.inspect_flags import COMMAND

main = COMMAND.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
