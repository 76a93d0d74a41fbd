"""The Python interpreter that py_binary and py_test run."""

PyInterpreterInfo = provider(fields = {
    "files": "depset of files that change when the interpreter's packages do",
    "path": "absolute path of the interpreter",
    "version": "major and minor version, such as 3.11",
})

def _py_interpreter_impl(ctx):
    return [PyInterpreterInfo(
        files = depset([ctx.file.fingerprint]),
        path = ctx.attr.path,
        version = ctx.attr.version,
    )]

py_interpreter = rule(
    implementation = _py_interpreter_impl,
    attrs = {
        "fingerprint": attr.label(allow_single_file = True, mandatory = True),
        "path": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
    },
)
