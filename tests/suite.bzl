"""Test targets; tests/tiers.py says which cases the fast tier has."""

load("@rules_python//python:defs.bzl", "py_test")

def suite(
        name,
        srcs,
        data = [],
        deps = [],
        size = "large",
        tags = [],
        processes = 1):
    """The tests of some files; tests/suite.py gives each file a process.

    Args:
      name: Name of the target.
      srcs: Test files (*_test.py).
      data: What they read, besides the files of tests/.
      deps: What they import, besides the packages of this repository.
      size: "large" for at most 600 seconds, "enormous" 3600.
      tags: `slow` for targets that the fast tier leaves out, `compat` for those
        that the gate runs on TensorFlow 2.15 as well.
      processes: How many share the cases where all are run; none may take longer
        than the size.
    """
    py_test(
        name = name,
        size = size,
        srcs = srcs,
        args = [native.package_name() + "/" + src for src in srcs],
        data = data,
        main = "//tests:suite.py",
        shard_count = processes if processes > 1 else None,
        tags = tags,
        deps = ["//tests:helpers"] + deps,
    )
