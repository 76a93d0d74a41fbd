"""The rules of this name that the BUILD files use, in plain Starlark.

The real rules_python needs a Bazel newer than those that can be installed
from package registries, and downloads toolchains. This one has the same load
label and takes a subset of the same attributes, so BUILD files fit both.
"""

load("//python/private:rules.bzl", _py_binary = "py_binary", _py_library = "py_library", _py_test = "py_test")

py_binary = _py_binary
py_library = _py_library
py_test = _py_test
