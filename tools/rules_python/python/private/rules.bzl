"""py_library, py_binary and py_test."""

load(":interpreter.bzl", "PyInterpreterInfo")

_PyImportsInfo = provider(fields = {
    "imports": "depset of import roots, relative to the runfiles folder",
})

# `$0.runfiles` lies beside a built binary; inside `bazel run` and another
# binary's runfiles the working directory tells. `bazel test` sets TEST_SRCDIR.
#
# PYTHONPATH is exported, and replaces the user's: the program and every Python
# it starts (sys.executable -m ...) see the same packages, and only those.
# HOME is for the tests that run without one.
_LAUNCHER = """#!/bin/sh
if [ -n "${{TEST_SRCDIR:-}}" ]; then
  RUNFILES_DIR="${{TEST_SRCDIR}}"
elif [ -z "${{RUNFILES_DIR:-}}" ] || [ ! -e "${{RUNFILES_DIR}}/{main}" ]; then
  case "$0" in
    /*) RUNFILES_DIR="$0.runfiles" ;;
    *) RUNFILES_DIR="${{PWD}}/$0.runfiles" ;;
  esac
  if [ ! -d "${{RUNFILES_DIR}}" ]; then
    RUNFILES_DIR="${{PWD%%.runfiles/*}}.runfiles"
  fi
fi
PYTHONPATH="{imports}"
PYTHONNOUSERSITE=1
HOME="${{HOME:-${{TEST_TMPDIR:-/tmp}}}}"
export RUNFILES_DIR PYTHONPATH PYTHONNOUSERSITE HOME
{env}exec "{python}" {options}"${{RUNFILES_DIR}}/{main}" "$@"
"""

# The folder of the main file, in the source tree, stays out of sys.path; but
# not for the Pythons that the program starts, as PYTHONSAFEPATH would have it.
_SAFE_PATH = "-P "

# Python 3.10 has no -P.
_SAFE_PATH_3_10 = """-c 'import runpy, sys
del sys.argv[0], sys.path[0]
runpy.run_path(sys.argv[0], run_name="__main__")' """

def _runfiles(ctx):
    runfiles = ctx.runfiles(files = ctx.files.srcs + ctx.files.data)
    for target in ctx.attr.deps + ctx.attr.data + ctx.attr.srcs:
        runfiles = runfiles.merge(target[DefaultInfo].default_runfiles)
    return runfiles

def _imports(ctx):
    own = [
        "/".join([part for part in [ctx.workspace_name, ctx.label.package, path] if part and part != "."])
        for path in ctx.attr.imports
    ]
    return depset(own, transitive = [dep[_PyImportsInfo].imports for dep in ctx.attr.deps])

def _py_library_impl(ctx):
    return [
        DefaultInfo(files = depset(ctx.files.srcs), runfiles = _runfiles(ctx)),
        _PyImportsInfo(imports = _imports(ctx)),
    ]

def _main_file(ctx):
    if ctx.file.main:
        return ctx.file.main
    for file in ctx.files.srcs:
        if file.basename == ctx.label.name + ".py":
            return file
    fail("%s: name the file to run in `main`, or have %s.py in `srcs`" % (ctx.label, ctx.label.name))

def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"

def _py_executable_impl(ctx):
    interpreter = ctx.attr._interpreter[PyInterpreterInfo]
    main = _main_file(ctx)
    imports = _imports(ctx)
    roots = [ctx.workspace_name] + imports.to_list()
    launcher = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(launcher, _LAUNCHER.format(
        env = "".join([
            "export %s=%s\n" % (name, _quote(ctx.expand_location(value, ctx.attr.data)))
            for name, value in ctx.attr.env.items()
        ]),
        imports = ":".join(["${RUNFILES_DIR}/" + root for root in roots]),
        main = ctx.workspace_name + "/" + main.short_path,
        options = _SAFE_PATH_3_10 if interpreter.version == "3.10" else _SAFE_PATH,
        python = interpreter.path,
    ), is_executable = True)
    own = ctx.runfiles(files = [main], transitive_files = interpreter.files)
    return [
        DefaultInfo(
            executable = launcher,
            files = depset([launcher]),
            runfiles = _runfiles(ctx).merge(own),
        ),
        _PyImportsInfo(imports = imports),
    ]

_LIBRARY_ATTRS = {
    "srcs": attr.label_list(allow_files = [".py"]),
    "data": attr.label_list(allow_files = True),
    "deps": attr.label_list(providers = [_PyImportsInfo]),
    "imports": attr.string_list(),
}

_EXECUTABLE_ATTRS = dict(_LIBRARY_ATTRS)
_EXECUTABLE_ATTRS.update({
    "env": attr.string_dict(),
    "main": attr.label(allow_single_file = [".py"]),
    "_interpreter": attr.label(
        default = Label("@pypi//:python3"),
        providers = [PyInterpreterInfo],
    ),
})

py_library = rule(implementation = _py_library_impl, attrs = _LIBRARY_ATTRS)

py_binary = rule(
    implementation = _py_executable_impl,
    attrs = _EXECUTABLE_ATTRS,
    executable = True,
)

py_test = rule(
    implementation = _py_executable_impl,
    attrs = _EXECUTABLE_ATTRS,
    test = True,
)
