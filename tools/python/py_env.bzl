"""Repository rules: a virtualenv from a hash-locked requirements file.

`py_env` is one environment: `@py_tf221` and its siblings; its interpreter is
`@py_tf221//:python3`. `py_hub` is `@pypi`:
a package per locked requirement, all of the environment that was chosen with
`--repo_env=TF_ENV=...` (see .bazelrc for the configs that do so).
"""

def _py_env_impl(ctx):
    lock = ctx.path(ctx.attr.lock)
    maker = ctx.path(Label("//tools/python:make_env.py"))
    finder = ctx.path(Label("//tools/python:find_python"))

    found = ctx.execute(["sh", str(finder)] + ctx.attr.python_versions)
    if found.return_code:
        _fail(ctx, ctx.attr.title + " could not be installed: " + found.stderr.strip())
    python = found.stdout.strip()

    venv = str(ctx.path("venv"))
    ctx.report_progress("Installing " + ctx.attr.title)
    made = ctx.execute(
        [python, str(maker), "--venv", venv, "--lock", str(lock), "--title", ctx.attr.title],
        quiet = False,
        timeout = 7200,
    )
    if made.return_code:
        fail(ctx.attr.title + " could not be installed; the reason is the last line.")

    # The fingerprint is in every test's runfiles: another lock or another
    # Python makes Bazel run the tests again.
    version = ctx.execute([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
    ctx.file("env.txt", "Python %s, %s\n%s" % (version, python, ctx.read(lock)))
    ctx.file("env.bzl", "PYTHON = \"%s/bin/python3\"\nVERSION = \"%s\"\n" % (venv, version))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("python3", "#!/bin/sh\nexec '%s/bin/python3' \"$@\"\n" % venv, executable = True)
    ctx.file("BUILD", "exports_files([\"env.txt\", \"python3\"])\n")

def _fail(ctx, message):
    """Fails, and hands the message to tools/bazel, which prints it last."""
    path = ctx.os.environ.get("MP_ERROR_FILE", "")
    if path:
        ctx.execute(["sh", "-c", "printf 'bazelw: %s\\n' \"$1\" > \"$2\"", "sh", message, path])
    fail(message)

py_env = repository_rule(
    implementation = _py_env_impl,
    attrs = {
        "lock": attr.label(mandatory = True, doc = "Requirements file with hashes."),
        "python_versions": attr.string_list(mandatory = True),
        "title": attr.string(mandatory = True, doc = "What people call it."),
    },
    environ = ["PYTHON_BIN_PATH"],
)

_HUB_BUILD = """load("@rules_python//python/private:interpreter.bzl", "py_interpreter")
load("@{env}//:env.bzl", "PYTHON", "VERSION")

py_interpreter(
    name = "python3",
    fingerprint = "@{env}//:env.txt",
    path = PYTHON,
    version = VERSION,
    visibility = ["//visibility:public"],
)
"""

_PACKAGE_BUILD = """load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "{name}",
    visibility = ["//visibility:public"],
)
"""

def _locked_names(lock_text):
    """The names of a lock's requirements, as labels spell them."""
    names = {}
    for line in lock_text.split("\n"):
        name, found, _ = line.partition("==")
        if found and line[0] not in " #-" and "'never'" not in line:
            names[name.partition("[")[0].strip().lower().replace("-", "_").replace(".", "_")] = True

    # The wheel that holds the package `tensorflow` may have another name.
    if "tensorflow_cpu" in names:
        names["tensorflow"] = True
    return names.keys()

def _py_hub_impl(ctx):
    chosen = ctx.os.environ.get("TF_ENV", "") or ctx.attr.default
    if chosen not in ctx.attr.locks.values():
        _fail(ctx, "TF_ENV=%s is no environment: choose one of %s" % (chosen, ", ".join(sorted(ctx.attr.locks.values()))))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", _HUB_BUILD.format(env = "py_" + chosen))
    for lock, name in ctx.attr.locks.items():
        if name == chosen:
            for package in _locked_names(ctx.read(ctx.path(lock))):
                ctx.file(package + "/BUILD", _PACKAGE_BUILD.format(name = package))

py_hub = repository_rule(
    implementation = _py_hub_impl,
    attrs = {
        "default": attr.string(mandatory = True, doc = "The environment if TF_ENV is not set."),
        "locks": attr.label_keyed_string_dict(mandatory = True, doc = "Lock of each environment."),
    },
    environ = ["TF_ENV"],
)
