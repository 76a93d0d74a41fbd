"""The predict command: examples go through a chain of stages.

  python -m estimator_mp.predict --stages=export/1700000000 \
      --examples=examples.jsonl --out=predictions.jsonl

`--help` lists the flags. `estimator_mp.toolbox.StagePipeline` is the same for
programs.
"""

import sys

from estimator_mp.cli.prediction.predict_flags import COMMAND

main = COMMAND.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
