"""The compare command: a model plain and sharded, step by step.

  python -m estimator_mp.compare --model_fn=my_model:model_fn \
      --input_fn=my_model:input_fn --mesh=data:2,stage:2

`--help` lists the flags; `estimator_mp.compare`, which is a function of
`comparison`, is the same for programs. Nothing imports this file, whose name
would then hide that function.
"""

import sys

from estimator_mp.cli.compare_flags import COMMAND

main = COMMAND.main

if __name__ == "__main__":
  sys.exit(main(sys.argv))
