"""Empty stand-ins for what Bazel 2 to 4 would download for any test."""

_COVERAGE_BUILD = """
[filegroup(
    name = name,
    srcs = ["none.sh"],
    visibility = ["//visibility:public"],
) for name in ["coverage_report_generator", "lcov_merger"]]
"""

def _coverage_tools_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("none.sh", "#!/bin/sh\necho 'bazel coverage is not supported here' >&2\nexit 1\n")
    ctx.file("BUILD", _COVERAGE_BUILD)

_coverage_tools = repository_rule(implementation = _coverage_tools_impl)

def bazel_stubs():
    """Declares @remote_coverage_tools, which every test target refers to."""
    _coverage_tools(name = "remote_coverage_tools")
