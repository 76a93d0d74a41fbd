"""Test targets; tests/tiers.py says which cases the fast tier has."""

load("@rules_python//python:defs.bzl", "py_test")

# On which tiers of TensorFlow 2.15 a suite runs.
_COMPAT = {"never": [], "all": ["slow"], "always": ["fast", "slow"]}

def suite(
        name,
        srcs,
        data = [],
        deps = [],
        size = "medium",
        tags = [],
        processes = 1,
        tiers = ["fast", "slow"],
        compat = "never"):
    """The tests of some files, in one process: the fast tier's, and all of them.

    NAME runs what the fast tier has of them, and has the tag `fast`. NAME_all
    runs every case, and has the tag `slow`.

    Args:
      name: Name of the target.
      srcs: Test files (*_test.py).
      data: What they read, besides the files of tests/.
      deps: What they import, besides the packages of this repository.
      size: Of NAME: "small" for at most 120 seconds, "medium" 300, "large" 600.
      tags: Of both targets.
      processes: How many share the cases of NAME_all; none may take longer than
        600 seconds.
      tiers: Which of the two targets there are. If one, it is NAME.
      compat: Whether they run on TensorFlow 2.15, too: "never"; in "all" tests
        only; or "always", in the fast tier as well.
    """
    for tier in tiers:
        is_slow = tier == "slow"
        py_test(
            name = name + ("_all" if is_slow and len(tiers) > 1 else ""),
            size = "large" if is_slow and size != "enormous" else size,
            srcs = srcs,
            args = [native.package_name() + "/" + src for src in srcs],
            data = data,
            env = {} if is_slow else {"MP_TIER": "fast"},
            main = "//tests:suite.py",
            shard_count = processes if is_slow and processes > 1 else None,
            tags = tags + [tier] + (["compat"] if tier in _COMPAT[compat] else []),
            deps = ["//tests:helpers"] + deps,
        )
