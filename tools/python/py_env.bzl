"""Repository rules: a virtualenv from a hash-locked requirements file.

`py_env` is one environment: `@py_tf221` and its siblings; its interpreter is
`@py_tf221//:python3`. The virtualenv itself is in the user's cache, where all
checkouts share it: so a test's key does not depend on the checkout. `py_hub` is
`@pypi`: a package per locked requirement, all of the environment that was
chosen with `--repo_env=TF_ENV=...` (see .bazelrc for the configs that do so).
"""

def _home(ctx):
    """The folder that bazelw and tools/lint install in, too."""
    environ = ctx.os.environ
    home = environ.get("BAZELW_HOME")
    if not home:
        cache = environ.get("XDG_CACHE_HOME") or environ.get("HOME", "/tmp") + "/.cache"
        home = cache + "/bazelw"
    return home

def _py_env_impl(ctx):
    lock = ctx.path(ctx.attr.lock)
    maker = ctx.path(Label("//tools/python:make_env.py"))
    finder = ctx.path(Label("//tools/python:find_python"))

    found = ctx.execute(["sh", str(finder)] + ctx.attr.python_versions)
    if found.return_code:
        _fail(ctx, ctx.attr.title + " could not be installed: " + found.stderr.strip())
    python = found.stdout.strip()

    ctx.report_progress("Installing " + ctx.attr.title)
    made = ctx.execute(
        [python, str(maker), "--home", _home(ctx), "--lock", str(lock), "--title", ctx.attr.title],
        quiet = False,
        timeout = 7200,
    )
    if made.return_code:
        fail(ctx.attr.title + " could not be installed; the reason is the last line.")
    venv = made.stdout.strip()

    # The fingerprint is in every test's runfiles: another Python makes Bazel
    # run the tests again. What is installed is in those of @pypi//x.
    version = ctx.execute([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
    ctx.file("env.txt", "Python %s, %s\n" % (version, python))
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
    environ = ["BAZELW_HOME", "PYTHON_BIN_PATH"],
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

def _py_hub_impl(ctx):
    chosen = ctx.os.environ.get("TF_ENV", "") or ctx.attr.default
    locks = {name: lock for lock, name in ctx.attr.locks.items()}
    if chosen not in locks:
        _fail(ctx, "TF_ENV=%s is no environment: choose one of %s" % (chosen, ", ".join(sorted(locks))))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", _HUB_BUILD.format(env = "py_" + chosen))
    written = ctx.execute([
        str(ctx.path(Label("@py_%s//:python3" % chosen))),
        str(ctx.path(Label("//tools/python:write_hub.py"))),
        "--lock=" + str(ctx.path(locks[chosen])),
        "--out=" + str(ctx.path(".")),
    ])
    if written.return_code:
        fail("The packages of %s could not be listed: %s" % (chosen, written.stderr))

py_hub = repository_rule(
    implementation = _py_hub_impl,
    attrs = {
        "default": attr.string(mandatory = True, doc = "The environment if TF_ENV is not set."),
        "locks": attr.label_keyed_string_dict(mandatory = True, doc = "Lock of each environment."),
    },
    environ = ["TF_ENV"],
)
