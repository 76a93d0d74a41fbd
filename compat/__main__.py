"""`python -m compat PROGRAM.py ARGS...`: runs a program that has tf.estimator.

For programs that cannot be edited to call compat.install() themselves. It is
the command estimator-mp-run, where pip did not install that.
"""

import sys

from compat import program

if __name__ == "__main__":
  program.main(sys.argv[1:], "python -m compat")
