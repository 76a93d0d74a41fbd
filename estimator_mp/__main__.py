"""python -m estimator_mp COMMAND: the command estimator-mp."""

from estimator_mp.cli import main

if __name__ == "__main__":
  main.run()
