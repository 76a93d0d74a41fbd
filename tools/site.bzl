"""The site of the documents: MkDocs makes it, as mkdocs.yml says."""

_LAUNCHER = """#!/bin/sh
python="${{PWD}}/{python}"
cd "${{BUILD_WORKSPACE_DIRECTORY}}" && exec "${{python}}" -m mkdocs serve "$@"
"""

def _site_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run(
        executable = ctx.executable._python,
        arguments = [
            "-m",
            "mkdocs",
            "build",
            "--config-file=" + ctx.file.config.path,
            "--site-dir=" + folder.path,
        ],
        env = {
            "NO_MKDOCS_2_WARNING": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        inputs = ctx.files.srcs + ctx.files.data + [ctx.file.config],
        mnemonic = "MkDocs",
        outputs = [folder],
        progress_message = "Building the site of the documents",
    )
    launcher = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        launcher,
        _LAUNCHER.format(python = ctx.executable._python.short_path),
        is_executable = True,
    )
    return DefaultInfo(
        executable = launcher,
        files = depset([folder]),
        runfiles = ctx.runfiles(files = [ctx.executable._python]),
    )

# `bazel build` makes a folder of pages; `bazel run` serves them, and makes one
# again when it is edited.
site = rule(
    implementation = _site_impl,
    executable = True,
    attrs = {
        "config": attr.label(allow_single_file = [".yml"], mandatory = True),
        "data": attr.label_list(
            allow_files = True,
            doc = "The hooks, programs that pages link to, and the packages.",
        ),
        "srcs": attr.label_list(allow_files = True, doc = "Pages and pictures."),
        "_python": attr.label(
            allow_single_file = True,
            cfg = "host",
            default = "@py_docs//:python3",
            executable = True,
        ),
    },
)
