"""Test targets of the two tiers; tests/tiers.py says what they are."""

load("@rules_python//python:defs.bzl", "py_test")

# On which tiers of TensorFlow 2.15 a suite runs.
_COMPAT = {"never": [], "all": ["all"], "always": ["fast", "all"]}

def suite(
        name,
        srcs,
        deps,
        data = [],
        size = "medium",
        tags = [],
        slow = 0,
        compat = "never"):
    """The tests of some files, in one process: what the fast tier runs of them.

    With `slow` there is a second target, NAME_all, which runs all of their cases
    and has the tag `slow`. NAME then has the tag `sample`: where NAME_all runs,
    it need not.

    Args:
      name: Name of the target.
      srcs: Test files (*_test.py), and what they import from beside them.
      deps: What they import.
      data: What they read.
      size: "small" for at most 120 seconds, "medium" 300, "large" 600.
      tags: Of both targets.
      slow: Number of processes that share the cases of NAME_all; 0 for no such
        target.
      compat: Whether they run on TensorFlow 2.15, too: "never"; in "all" tests
        only; or "always", in the fast tier as well.
    """
    tiers = _COMPAT[compat]
    common = {
        "args": [native.package_name() + "/" + src for src in srcs if src.endswith("_test.py")],
        "data": data,
        "deps": deps,
        "main": "//tests:suite.py",
        "srcs": srcs,
    }
    is_compat = "fast" in tiers or ("all" in tiers and not slow)
    py_test(
        name = name,
        size = size,
        env = {"MP_TIER": "fast"},
        tags = tags + (["compat"] if is_compat else []) + (["sample"] if slow else []),
        **common
    )
    if slow:
        slow_suite(name + "_all", srcs, deps, data, tags, slow, compat)

def slow_suite(name, srcs, deps, data = [], tags = [], processes = 1, compat = "never"):
    """The tests of files that the fast tier leaves out.

    Args:
      name: Name of the target.
      srcs: Test files (*_test.py), and what they import from beside them.
      deps: What they import.
      data: What they read.
      tags: Its tags, besides `slow`.
      processes: How many share the cases; none may take longer than 600 seconds.
      compat: "never", or "all" if they run on TensorFlow 2.15, too.
    """
    py_test(
        name = name,
        size = "large",
        srcs = srcs,
        args = [native.package_name() + "/" + src for src in srcs if src.endswith("_test.py")],
        data = data,
        main = "//tests:suite.py",
        shard_count = processes if processes > 1 else None,
        tags = tags + ["slow"] + (["compat"] if "all" in _COMPAT[compat] else []),
        deps = deps,
    )
