"""All external repositories. Nothing but wheels is downloaded."""

load("//tools/python:bazel_stubs.bzl", "bazel_stubs")
load("//tools/python:py_env.bzl", "py_env", "py_hub")

# name: (what people call it, Python versions its wheels exist for). The name
# is that of the lock: requirements_NAME.txt.
_ENVIRONMENTS = {
    "tf215": ("TensorFlow 2.15", ["3.11", "3.10"]),
    "tf221": ("TensorFlow 2.21", ["3.11", "3.12", "3.13", "3.10"]),
    "tf221_gpu": ("TensorFlow 2.21 with CUDA", ["3.11", "3.12", "3.13", "3.10"]),
}

# Environments beside @pypi, for programs that a target starts as others: its
# data has @py_NAME//:python3. Nothing makes them before such a target is built.
_OTHERS = {
    "docs": ("MkDocs", ["3.11", "3.12", "3.13", "3.10"]),
    "notebooks": ("Jupyter", ["3.11", "3.12", "3.13", "3.10"]),
    "peers": ("Lingvo and Mesh TensorFlow", ["3.11", "3.12", "3.13", "3.10"]),
}

def python_repositories():
    """Declares @rules_python, @pypi, the environments behind it, and others."""
    native.local_repository(
        name = "rules_python",
        path = "tools/rules_python",
    )
    for name, (title, python_versions) in _ENVIRONMENTS.items() + _OTHERS.items():
        py_env(
            name = "py_" + name,
            lock = "//tools/python:requirements_%s.txt" % name,
            python_versions = python_versions,
            title = title,
        )
    py_hub(
        name = "pypi",
        default = "tf221",
        locks = {
            "//tools/python:requirements_%s.txt" % name: name
            for name in _ENVIRONMENTS
        },
    )
    bazel_stubs()
