"""Which tests run on which TensorFlow.

On the newest, all do. On 2.15 what it may do in another way has to run, but not
with every model on every mesh: each way of making a graph once.

  MP_ALL_CASES=1 python -m tests.estimator_mp.equality.sharding_test

runs all of them on any TensorFlow.
"""

import os
from collections.abc import Iterable
from typing import Any

import estimator_mp  # noqa: F401

import tensorflow as tf

SOME = tf.__version__.startswith("2.15.") and not os.environ.get("MP_ALL_CASES")


def newest_only(test: Any) -> Any:
  """Leaves out a test method, or a class of tests, on TensorFlow 2.15.

  It is the outermost decorator of a test.
  """
  return None if SOME else test


def some(cases: Iterable[Any], *kept: str) -> list[Any]:
  """All cases; on TensorFlow 2.15 those that are kept.

  Args:
    cases: Names, or tuples that begin with one.
    *kept: Some of the names.
  """
  by_name = {x if isinstance(x, str) else x[0]: x for x in cases}
  some_of_them = [by_name[name] for name in kept]
  return some_of_them if SOME else [*by_name.values()]


def first(values: Iterable[Any]) -> list[Any]:
  """All values; on TensorFlow 2.15 the first one.

  Args:
    values: Of what a case is tried with, such as ways to cut a tensor.
  """
  every = [*values]
  return every[:1] if SOME else every
