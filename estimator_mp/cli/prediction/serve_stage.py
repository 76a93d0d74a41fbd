"""The serve_stage command: one stage of a chain, on this machine.

  python -m estimator_mp.cli.prediction.serve_stage \
      --stage_dir=export/1700000000/stage_0 --port=8500

`--help` lists the flags.
"""

import sys

from estimator_mp.cli.prediction.serve_flags import COMMAND

main = COMMAND.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
