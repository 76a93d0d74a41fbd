"""The capacity command: the largest model that fits devices of a given memory.

  python -m estimator_mp.cli.sizing.capacity --model=transformer \
      --memory_per_device=256MiB --stages=1,2,4,8

`--help` lists the flags; docs/capacity.md says what is planned and measured.
"""

import sys

from estimator_mp.cli.sizing.capacity_flags import COMMAND

main = COMMAND.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
