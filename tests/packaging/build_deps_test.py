"""The deps of BUILD files, beside what the sources import."""

import pathlib
import textwrap

from tools import build_deps

from absl.testing import absltest, parameterized

# A test sees links to the files it declares; they lead to the source tree.
_ROOT = pathlib.Path(__file__).resolve().parents[2]

# A library for each file, and one that uses them.
_LIBRARIES = """
py_library(
    name = "one",
    srcs = ["one.py"],
)

py_library(
    name = "two",
    srcs = ["two.py"],
)
"""
_USER = """
py_test(
    name = "user_test",
    srcs = ["user_test.py"],
%s)
"""
_LOCK = "\n".join(
  (
    "fancy-lib==1.2 \\\\",
    "    --hash=x",
    "plain-lib==3",
    "tensorflow-cpu==2.21",
  )
)


class _TreeCase(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.root = pathlib.Path(self.create_tempdir().full_path)
    self.write("tools/python/requirements_tf221.txt", _LOCK)

  def write(self, path, text=""):
    file = self.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))

  def problems(self):
    return [str(problem) for problem in build_deps.check(str(self.root))]

  def write_user(self, source, deps=""):
    """Makes a//BUILD: libraries, and a test with such a source and deps."""
    self.write("a/BUILD", _LIBRARIES + _USER % deps)
    self.write("a/one.py")
    self.write("a/two.py")
    self.write("a/user_test.py", source)


class RepositoryTest(absltest.TestCase):
  def test_deps_are_what_the_sources_import(self):
    """`python3 tools/build_deps.py --fix` writes them."""
    problems = build_deps.check(str(_ROOT))
    self.assertEqual([], [str(problem) for problem in problems])


class ImportsTest(_TreeCase):
  @parameterized.named_parameters(
    ("import", "import a.one"),
    ("alias", "import a.one as other"),
    ("from", "from a import one"),
    ("name", "from a.one import thing"),
    ("star", "from a.one import *"),
    ("relative", "from . import one"),
    ("relative_name", "from .one import thing"),
    ("in_function", "def f():\n  from a import one"),
    ("type_checking_else", "if TYPE_CHECKING:\n  x = 1\nelse:\n  import a.one"),
    ("constant", "import importlib\nimportlib.import_module('a.one')"),
    ("attribute", "import a\na.one.thing()"),
    ("text", "import os\nrun('-c', '''\n  import sys, a.one\n  print(1)\n''')"),
  )
  def test_asks_for_the_library(self, source):
    self.write_user(source)
    self.assertEqual(
      ["//a:user_test: add //a:one (imported by a/user_test.py)"],
      self.problems(),
    )

  @parameterized.named_parameters(
    ("nothing", ""),
    ("itself", "from a import user_test"),
    ("standard_library", "import os.path\nimport json"),
    ("unknown", "import nobody_knows\nfrom a import none_such"),
    (
      "type_checking",
      "import typing\nif typing.TYPE_CHECKING:\n  import a.one",
    ),
    ("prose", "message = 'please import a.one first'"),
    ("marked", "import a.one  # no dep: who needs it has it"),
    ("marked_name", "from a import one  # no dep: why not\none.thing()"),
    (
      "marked_lines",
      "from a import (\n  one,\n  two,  # no dep: why not\n)\n",
    ),
  )
  def test_asks_for_nothing(self, source):
    self.write_user(source)
    self.assertEmpty(self.problems())

  @parameterized.named_parameters(
    ("module_name", "run('-m', 'a.one')"),
    ("find_spec", "import importlib.util\nimportlib.util.find_spec('a.one')"),
  )
  def test_explains_a_dep_without_asking(self, source):
    self.write_user(source)
    self.assertEmpty(self.problems())
    self.write_user(source, '    deps = [":one"],\n')
    self.assertEmpty(self.problems())

  def test_a_dep_that_nothing_imports(self):
    self.write_user("import a.one", '    deps = [":one", "//a:two"],\n')
    self.assertEqual(
      ["//a:user_test: remove //a:two (nothing imports it)"], self.problems()
    )

  def test_a_kept_dep(self):
    deps = '    deps = [\n        ":two",  # keep: it is started\n    ],\n'
    self.write_user("", deps)
    self.assertEmpty(self.problems())
    self.write_user("", deps.replace("keep: ", "because "))
    self.assertLen(self.problems(), 1)

  def test_python_files_in_data_explain_deps(self):
    self.write_user("", '    data = ["program.py"],\n    deps = [":one"],\n')
    self.write("a/program.py", "import a.one, a.two")
    self.assertEmpty(self.problems())

  def test_packages_with_code_are_imported_by_their_files(self):
    self.write("a/BUILD", 'py_library(name = "init", srcs = ["__init__.py"])')
    self.write("a/b/BUILD", 'py_library(name = "b", srcs = glob(["*.py"]))')
    self.write("a/b/c.py")
    self.write("a/__init__.py", '"""Only says what is in it."""')
    self.assertEmpty(self.problems())
    self.write("a/__init__.py", "import os")
    self.assertEqual(
      ["//a/b: add //a:init (imported by a/b/c.py)"], self.problems()
    )
    # From outside, they come with the library.
    self.write("d/BUILD", 'py_test(name = "d", srcs = ["d.py"])')
    self.write("d/d.py", "import a.b.c")
    self.assertEqual("//d: add //a/b (imported by d/d.py)", self.problems()[-1])
    self.assertLen(self.problems(), 2)

  @parameterized.named_parameters(
    ("attribute", "import lazy\nlazy.Name()"),
    ("alias", "import lazy as mp\nmp.Name.make()"),
    ("from", "from lazy import Name"),
  )
  def test_a_lazy_name_imports_its_home(self, source):
    self.write(
      "lazy/BUILD",
      """
      py_library(name = "lazy", srcs = ["__init__.py"])
      py_library(
          name = "homes",
          srcs = glob(["homes/*.py"]),
          deps = [":lazy"],
      )
      """,
    )
    self.write(
      "lazy/__init__.py",
      """
      if TYPE_CHECKING:
        from lazy.homes.home import Name as Name
      """,
    )
    self.write("lazy/homes/home.py")
    self.write("user/BUILD", 'py_test(name = "user", srcs = ["user.py"])')
    self.write("user/user.py", source)
    self.assertIn(
      "//user: add //lazy:homes (imported by user/user.py)", self.problems()
    )

  @parameterized.named_parameters(
    ("core", "import COMPAT\nCOMPAT.install()", []),
    (
      "contrib",
      "from COMPAT import install\ninstall(contrib=True)",
      ["contrib"],
    ),
    ("v1", "import COMPAT as c\nc.install(v1=True)", ["contrib", "v1"]),
    ("no_v1", "import COMPAT\nCOMPAT.install(v1=False)", []),
    ("use", "import TENSORFLOW as tf\ntf.contrib.layers.fc()", ["contrib"]),
    ("v1_use", "import TENSORFLOW.compat.v1 as tf\ntf.contrib.x", ["contrib"]),
    ("path", "from TENSORFLOW.contrib import layers", ["contrib"]),
    ("other_install", "def install(v1): pass\ninstall(v1=True)", []),
  )
  def test_compat(self, source, expected):
    # As it stands above, it is no program that imports compat.
    source = source.replace("COMPAT", "compat")
    source = source.replace("TENSORFLOW", "tensorflow")
    self.write(
      "compat/BUILD",
      """
      py_library(name = "core", srcs = ["__init__.py", "installation.py"])
      py_library(name = "contrib", srcs = glob(["contrib/*.py"]))
      py_library(name = "v1", srcs = glob(["v1/*.py"]))
      """,
    )
    for name in ("", "contrib/", "v1/"):
      self.write(f"compat/{name}__init__.py")
    self.write("compat/installation.py")
    self.write("compat/contrib/layers.py")
    self.write("user/BUILD", 'py_test(name = "user", srcs = ["user.py"])')
    self.write("user/user.py", source)
    self.assertEqual(
      [f"//compat:{name}" for name in expected],
      [
        problem.label
        for problem in build_deps.check(str(self.root))
        if problem.label not in ("//compat:core", "@pypi//tensorflow")
      ],
    )


class ThirdPartyTest(_TreeCase):
  @parameterized.named_parameters(
    ("same_name", "tensorflow.python", "@pypi//tensorflow"),
    ("dashes", "fancy_lib", "@pypi//fancy_lib"),
  )
  def test_locked(self, module, label):
    self.write_user(f"import {module}")
    self.assertEqual(
      [f"//a:user_test: add {label} (imported by a/user_test.py)"],
      self.problems(),
    )

  def test_a_module_with_another_name_than_its_distribution(self):
    self.write(
      "tools/python/requirements_tf215.txt", "scikit-learn==1.7.2 \\\n"
    )
    self.write_user(f"from {'sklearn'} import metrics")
    (problem,) = build_deps.check(str(self.root))
    self.assertEqual("@pypi//scikit_learn", problem.label)

  @parameterized.named_parameters(
    ("one", "ImportError"), ("several", "(OSError, ModuleNotFoundError)")
  )
  def test_optional(self, error):
    source = f"""
    try:
      import fancy_lib
    except {error}:
      fancy_lib = None
    else:
      fancy_lib.start()

    def use():
      import fancy_lib
    """
    self.write_user(source)
    self.assertEmpty(self.problems())
    self.write_user(source, '    deps = ["@pypi//fancy_lib"],\n')
    self.assertEmpty(self.problems())

  def test_a_try_for_something_else(self):
    self.write_user("try:\n  import fancy_lib\nexcept ValueError:\n  pass")
    self.assertLen(self.problems(), 1)

  def test_nothing_imports_it(self):
    self.write_user("", '    deps = ["@pypi//fancy_lib"],\n')
    self.assertLen(self.problems(), 1)


class OwnersTest(_TreeCase):
  def test_two_libraries(self):
    self.write_user("import a.one")
    self.write("BUILD", 'py_library(name = "all", srcs = ["//a:one.py"])')
    self.assertEqual(
      [
        "//a:user_test: a/one.py is in //:all and //a:one "
        "(imported by a/user_test.py)"
      ],
      self.problems(),
    )

  def test_two_libraries_but_a_source_of_its_own(self):
    self.write_user("import a.one", "    deps = [],\n")
    self.write("BUILD", 'py_library(name = "all", srcs = ["//a:one.py"])')
    build = self.root / "a/BUILD"
    build.write_text(
      build.read_text().replace('["user_test', '["one.py", "user_test')
    )
    self.assertEmpty(self.problems())

  def test_no_library(self):
    self.write_user("import a.user_test")
    self.write("b/BUILD", 'py_test(name = "b", srcs = ["b.py"])')
    self.write("b/b.py", "import a.user_test")
    self.assertEqual(
      ["//b: no library has a/user_test.py (imported by b/b.py)"],
      self.problems(),
    )

  def test_a_library_goes_before_a_binary(self):
    self.write_user("import a.one", '    deps = [":one"],\n')
    self.write("BUILD", 'py_binary(name = "run", srcs = ["//a:one.py"])')
    self.assertEmpty(self.problems())

  def test_a_binary_will_do(self):
    self.write("a/BUILD", 'py_binary(name = "run", srcs = ["one.py"])')
    self.write("a/one.py")
    self.write("b/BUILD", 'py_test(name = "b", srcs = ["b.py"])')
    self.write("b/b.py", "import a.one")
    self.assertEqual(["//b: add //a:run (imported by b/b.py)"], self.problems())


class BuildFilesTest(_TreeCase):
  def test_glob(self):
    self.write_user("")
    self.write(
      "b/BUILD",
      """
      py_library(name = "flat", srcs = glob(["*.py"]))
      py_library(
          name = "deep",
          srcs = glob(["**/*.py"], exclude = ["*.py", "c/**/left*"]),
      )
      """,
    )
    self.write("b/flat.py", "import a.one")
    self.write("b/c/d/deep.py", "import a.two")
    self.write("b/c/d/left_out.py", "import fancy_lib")
    self.write("b/package/BUILD")
    self.write("b/package/other.py", "import fancy_lib")
    self.assertEqual(
      [
        "//b:flat: add //a:one (imported by b/flat.py)",
        "//b:deep: add //a:two (imported by b/c/d/deep.py)",
      ],
      self.problems(),
    )

  def test_macros_and_what_the_file_names(self):
    self.write_user("")
    self.write(
      "b/BUILD",
      """
      load("//tests:suite.bzl", "suite")

      package(default_visibility = ["//visibility:public"])

      _SOURCES = ["suite_test.py"]

      filegroup(name = "more", srcs = ["more_test.py"])

      suite(name = "b", srcs = _SOURCES + [":more"], shards = 2)
      """,
    )
    self.write("b/suite_test.py", "import a.one")
    self.write("b/more_test.py", "import a.two")
    self.assertEqual(
      [
        "//b: add //a:one (imported by b/suite_test.py)",
        "//b: add //a:two (imported by b/more_test.py)",
      ],
      self.problems(),
    )

  def test_a_library_of_libraries(self):
    self.write_user("")
    self.write("b/BUILD", 'py_library(name = "b", deps = ["//a:one"])')
    self.assertEmpty(self.problems())

  def test_other_workspaces_are_left_out(self):
    self.write("a/WORKSPACE")
    self.write("a/BUILD", 'py_library(name = "a", deps = ["//b"])')
    self.assertEmpty(self.problems())


class FixTest(_TreeCase):
  def _fixed(self, build, source):
    self.write_user("")
    self.write("b/BUILD", build)
    self.write("b/b.py", source)
    self.write("b/c.py")
    left = build_deps.fix(str(self.root))
    return (self.root / "b/BUILD").read_text(), left

  def test_rewrites_a_list(self):
    fixed, left = self._fixed(
      """\
      py_library(
          name = "c",  # ä
          srcs = ["c.py"],
      )

      # What it is for.
      py_test(
          name = "b",
          srcs = ["b.py"],
          deps = [
              # It is started.
              "//a:user",  # keep: no import shows it
              # Nobody knows.
              "//a:two",
              # This one, too.
              "@pypi//plain_lib",
          ],
          tags = ["x"],
      )
      """,
      "import fancy_lib, a.one, b.c, plain_lib",
    )
    self.assertEmpty(left)
    self.assertEqual(
      textwrap.dedent("""\
      py_library(
          name = "c",  # ä
          srcs = ["c.py"],
      )

      # What it is for.
      py_test(
          name = "b",
          srcs = ["b.py"],
          deps = [
              ":c",
              "//a:one",
              # It is started.
              "//a:user",  # keep: no import shows it
              "@pypi//fancy_lib",
              # This one, too.
              "@pypi//plain_lib",
          ],
          tags = ["x"],
      )
      """),
      fixed,
    )

  @parameterized.named_parameters(
    (
      "adds_the_list",
      '    srcs = ["b.py"],\n',
      "import a.one",
      '    srcs = ["b.py"],\n    deps = ["//a:one"],\n',
    ),
    (
      "adds_the_list_behind_a_comment",
      '    srcs = ["b.py"]  # The file.\n',
      "import a.one",
      '    srcs = ["b.py"],  # The file.\n    deps = ["//a:one"],\n',
    ),
    (
      "removes_the_list",
      '    srcs = ["b.py"],\n    deps = ["//a:two"],\n    size = "small",\n',
      "",
      '    srcs = ["b.py"],\n    size = "small",\n',
    ),
    (
      "shortens_the_list",
      '    srcs = ["b.py"],\n    deps = [\n        "//a:one",\n'
      '        "//a:two",\n    ],\n',
      "import a.two",
      '    srcs = ["b.py"],\n    deps = ["//a:two"],\n',
    ),
  )
  def test_attributes(self, before, source, after):
    rule = 'py_test(\n    name = "b",\n%s)\n'
    fixed, left = self._fixed(rule % before, source)
    self.assertEmpty(left)
    self.assertEqual(rule % after, fixed)

  def test_a_rule_on_one_line(self):
    fixed, left = self._fixed(
      'py_test(name = "b", srcs = ["b.py"])\n', "import a.one"
    )
    self.assertEmpty(left)
    self.assertEqual(
      'py_test(name = "b", srcs = ["b.py"], deps = ["//a:one"])\n', fixed
    )

  def test_a_sum_of_lists_is_left_to_people(self):
    build = (
      'py_test(name = "b", srcs = ["b.py"], deps = ["//a:one"] + ["//a:two"])\n'
    )
    fixed, left = self._fixed(build, "import a.one")
    self.assertEqual(build, fixed)
    self.assertEqual(
      ["//b: remove //a:two (nothing imports it)"], list(map(str, left))
    )

  def test_sorts_as_buildifier_does(self):
    labels = [":z", "//a", "//a:z", "//a/b", "//a/b:c", "//b", "@pypi//absl_py"]
    self.assertEqual(labels, sorted(reversed(labels), key=build_deps._sort_key))


if __name__ == "__main__":
  absltest.main()
