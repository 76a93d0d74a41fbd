"""Checks, and with --fix rewrites, the `deps` of BUILD files.

    python3 tools/build_deps.py [--fix]

The `deps` of a rule are the libraries of the modules that its `srcs` import:
directly, anywhere in the file, and nothing else.

What counts as an import:

- `import` and `from` in any scope, and `importlib.import_module("constant")`;
  but nothing under `if typing.TYPE_CHECKING`.
- The same in a text that is a Python program, as for `python -c`.
- A name of a lazy module, which imports it for type checkers as itself:
  `estimator_mp.Mesh` imports `estimator_mp.mesh`.
- A package's `__init__.py`, if it has code, for the files of the package. Who
  imports a module gets the packages above it from the module's library.
- `compat.install(v1=True)` imports `compat.v1` and `compat.contrib`;
  `install(contrib=True)` and any use of `tf.contrib` import `compat.contrib`.
  TensorFlow alone imports nothing of compat.

What explains a dependency but does not ask for one:

- An import in a `try` that catches ImportError; what the file imports of the
  same library elsewhere is optional, too.
- `importlib.util.find_spec("constant")`.
- A text that is a module's full name, as of a program that is started.
- Imports of Python files in `data`.

Two comments make exceptions. In a BUILD file, for what no import shows:

    "//estimator_mp:train",  # keep: the test starts it

In a source file, for an import whose users bring the library themselves:

    from compat.v1 import installation  # no dep: //compat:v1 asks for it

A module belongs to the only py_library that has its file in `srcs`, or else to
the only py_binary. Third-party modules belong to `@pypi//distribution` if a
lock of tools/python has the distribution, and are ignored otherwise.

BUILD files are executed as Python. Any function they call that is not known
here is taken for a rule, as macros are.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import collections
import contextlib
import dataclasses
import functools
import gc
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Top-level modules that are not called after their distribution.
_DISTRIBUTIONS = {
  "PIL": "pillow",
  "absl": "absl_py",
  "google": "protobuf",
  "grpc": "grpcio",
  "kubeflow": "kubeflow_training",
  "sklearn": "scikit_learn",
  "yaml": "pyyaml",
}
_CONTRIB = re.compile(r"tensorflow(\.compat\.v1)?\.contrib\b")
_INSTALLS = {
  "contrib": ("compat.contrib",),
  "v1": ("compat.contrib", "compat.v1"),
}
_MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NO_RULES = (
  "alias",
  "exports_files",
  "genrule",
  "load",
  "package",
  "package_group",
  "test_suite",
)


@dataclasses.dataclass(frozen=True, order=True)
class Problem:
  """A problem of a rule.

  Attributes:
    rule: its label.
    change: "add" or "remove"; "" if that would not mend it.
    label: what to add or remove, or what is wrong.
    reason: which file imports it, or that none does.
  """

  rule: str
  change: str
  label: str
  reason: str

  def __str__(self) -> str:
    change = f"{self.change} {self.label}".strip()
    return f"{self.rule}: {change} ({self.reason})"


@dataclasses.dataclass(frozen=True)
class _Rule:
  """A rule of a BUILD file; paths are relative to the root.

  Attributes:
    label: in full, "//a/b:b".
    kind: the function that makes it.
    srcs: paths of its Python files.
    data: paths of the Python files that it reads or starts.
    deps: labels in full.
    kept: those of deps with a comment `# keep:`.
  """

  label: str
  kind: str
  srcs: tuple[str, ...]
  data: tuple[str, ...]
  deps: frozenset[str]
  kept: frozenset[str]


@dataclasses.dataclass
class _Imports:
  """Dotted names in a file, down to what is used of a module.

  Attributes:
    needed: what it imports.
    optional: what it does without.
    named: what else explains a dependency.
  """

  needed: set[str] = dataclasses.field(default_factory=set)
  optional: set[str] = dataclasses.field(default_factory=set)
  named: set[str] = dataclasses.field(default_factory=set)

  def add(self, name: str, optional: bool) -> None:
    (self.optional if optional else self.needed).add(name)


class _Reader:
  """Collects the imports of one file."""

  def __init__(self, source: str, module: str, is_package: bool):
    self.imports = _Imports()
    self.has_code = False
    self.homes: dict[str, str] = {}
    self._package = module if is_package else module.rpartition(".")[0]
    # The modules that a name of the file stands for, and whether optionally.
    self._bound: dict[str, set[tuple[str, bool]]] = collections.defaultdict(set)
    self._chains: set[tuple[str, bool]] = set()
    self._calls: list[tuple[ast.Call, bool]] = []
    self._skipped = {
      number
      for number, line in enumerate(source.split("\n"), start=1)
      if "# no dep: " in line
    }
    tree = ast.parse(source)
    self._visit_all(tree.body, optional=False)
    self._use_chains()
    self._use_calls()
    self._read_package(tree.body)

  def _visit_all(self, nodes: Iterable[ast.AST], optional: bool) -> None:
    for node in nodes:
      self._visit(node, optional)

  def _visit(self, node: ast.AST, optional: bool) -> None:
    if isinstance(node, ast.Import | ast.ImportFrom):
      lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
      if self._skipped.isdisjoint(lines):
        self._import(node, optional)
      return
    if isinstance(node, ast.Attribute):
      chain = _dotted(node)
      if chain:
        self._chains.add((chain, optional))
        return
    elif isinstance(node, ast.If) and _is_type_checking(node.test):
      self._visit_all(node.orelse, optional)
      return
    elif isinstance(node, ast.Try):
      caught = optional or any(map(_catches_import_error, node.handlers))
      self._visit_all(node.body, caught)
      self._visit_all((*node.handlers, *node.orelse, *node.finalbody), optional)
      return
    elif isinstance(node, ast.Call):
      self._calls.append((node, optional))
    elif isinstance(node, ast.Constant):
      if isinstance(node.value, str):
        self._read_text(node.value)
      return
    self._visit_all(ast.iter_child_nodes(node), optional)

  def _read_text(self, text: str) -> None:
    if _MODULE_NAME.fullmatch(text):
      self.imports.named.add(text)
    elif "import " in text:
      try:
        program = _Reader(textwrap.dedent(text), "", is_package=False)
      except (SyntaxError, ValueError):
        return  # Prose.
      self.imports.needed |= program.imports.needed
      self.imports.named |= program.imports.optional | program.imports.named

  def _import(self, node: ast.Import | ast.ImportFrom, optional: bool) -> None:
    if isinstance(node, ast.Import):
      for alias in node.names:
        self.imports.add(alias.name, optional)
        top = alias.name.partition(".")[0]
        bound = (alias.asname, alias.name) if alias.asname else (top, top)
        self._bound[bound[0]].add((bound[1], optional))
      return
    module = node.module or ""
    if node.level:
      above = self._package.split(".")
      above = above[: len(above) - node.level + 1]
      module = ".".join([*above, module] if module else above)
    for alias in node.names:
      name = module if alias.name == "*" else f"{module}.{alias.name}"
      self.imports.add(name, optional)
      self._bound[alias.asname or alias.name].add((name, optional))

  def _meanings(self, chain: str) -> Iterator[tuple[str, bool]]:
    """Yields what a chain of attributes is, if it starts with a module."""
    first, dot, rest = chain.partition(".")
    for name, optional in self._bound.get(first, ()):
      yield f"{name}{dot}{rest}", optional

  def _use_chains(self) -> None:
    for chain, in_try in self._chains:
      for name, optional in self._meanings(chain):
        self.imports.add(name, optional or in_try)
    for names in (self.imports.needed, self.imports.optional):
      names |= {
        _CONTRIB.sub("compat.contrib", name)
        for name in names
        if _CONTRIB.match(name)
      }

  def _use_calls(self) -> None:
    for call, optional in self._calls:
      argument = call.args[0] if call.args else None
      for function, _ in self._meanings(_dotted(call.func)):
        if function in ("compat.install", "compat.installation.install"):
          for keyword in call.keywords:
            value = keyword.value
            if isinstance(value, ast.Constant) and value.value is True:
              self.imports.needed.update(_INSTALLS.get(keyword.arg or "", ()))
        elif isinstance(argument, ast.Constant) and isinstance(
          argument.value, str
        ):
          if function == "importlib.import_module":
            self.imports.add(argument.value, optional)
          elif function == "importlib.util.find_spec":
            self.imports.named.add(argument.value)

  def _read_package(self, body: list[ast.stmt]) -> None:
    for statement in body:
      if isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
      ):
        continue
      self.has_code = True
      if isinstance(statement, ast.If) and _is_type_checking(statement.test):
        self.homes |= {
          alias.name: imported.module or ""
          for imported in statement.body
          if isinstance(imported, ast.ImportFrom)
          for alias in imported.names
          if alias.asname == alias.name
        }


def _dotted(node: ast.AST) -> str:
  """Returns "a.b.c" of such an expression; "" of any other."""
  names = []
  while isinstance(node, ast.Attribute):
    names.append(node.attr)
    node = node.value
  if not isinstance(node, ast.Name):
    return ""
  return ".".join([node.id, *reversed(names)])


def _is_type_checking(test: ast.expr) -> bool:
  return _dotted(test).rpartition(".")[2] == "TYPE_CHECKING"


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
  kinds = (
    handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
  )
  return any(
    kind is None or _dotted(kind) in ("ImportError", "ModuleNotFoundError")
    for kind in kinds
  )


class _Tree:
  """The rules and the Python files of a workspace."""

  def __init__(self, root: str):
    self.root = root
    self.build_files: list[str] = []
    self._files: dict[str, list[str]] = {}  # By package, from its folder.
    self._walk("", "")
    self._modules = self._find_modules()
    self._readers: dict[str, _Reader] = {}
    self._distributions = _locked_distributions(root)
    self.rules: list[_Rule] = []
    for build_file in self.build_files:
      self.rules += _read_rules(root, build_file, self._files)
    self._owners: dict[str, list[_Rule]] = collections.defaultdict(list)
    for rule in self.rules:
      for path in rule.srcs:
        self._owners[path].append(rule)

  def _walk(self, folder: str, package: str) -> None:
    """Sorts the files of a folder into packages."""
    entries = sorted(
      os.scandir(os.path.join(self.root, folder)), key=lambda entry: entry.name
    )
    names = {entry.name for entry in entries}
    if "WORKSPACE" in names and folder:
      return  # A repository of its own.
    if "BUILD" in names:
      package = folder
      self.build_files.append(os.path.join(folder, "BUILD"))
      self._files[package] = []
    for entry in entries:
      path = os.path.join(folder, entry.name)
      if entry.is_dir(follow_symlinks=False):
        if not entry.name.startswith((".", "__", "bazel-")):
          self._walk(path, package)
      elif package or "" in self._files:
        self._files[package].append(os.path.relpath(path, package or "."))

  def _find_modules(self) -> dict[str, str]:
    """Paths of modules by name; "" for folders without an `__init__.py`."""
    modules: dict[str, str] = {}
    for package, names in self._files.items():
      for name in names:
        if name.endswith(".py"):
          path = os.path.join(package, name)
          parts = path.removesuffix(".py").split("/")
          if parts[-1] == "__init__":
            parts.pop()
          modules[".".join(parts)] = path
          for end in range(1, len(parts)):
            modules.setdefault(".".join(parts[:end]), "")
    return modules

  def _read(self, path: str) -> _Reader:
    if path in self._readers:
      return self._readers[path]
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    source = pathlib.Path(self.root, path).read_text(encoding="utf-8")
    self._readers[path] = _Reader(source, module, is_package)
    return self._readers[path]

  def _file_of(self, name: str) -> str | None:
    """Returns the path of the module that holds a name; None if not ours."""
    parts = name.split(".")
    if parts[0] not in self._modules:
      return None
    path = self._modules[parts[0]]
    module = parts[0]
    for part in parts[1:]:
      home = self._read(path).homes.get(part) if path else None
      if home:
        return self._modules.get(home, "")
      module = f"{module}.{part}"
      if module not in self._modules:
        break
      path = self._modules[module]
    return path

  def _packages_above(self, path: str) -> Iterator[str]:
    """Yields the packages with code that a file is in."""
    for folder in pathlib.PurePosixPath(path).parents:
      init = str(folder / "__init__.py")
      package = ".".join(folder.parts)
      if self._modules.get(package) == init and self._read(init).has_code:
        yield package

  def judge(self, rule: _Rule) -> list[Problem]:
    """Returns what is wrong with the deps of a rule."""
    if not rule.srcs:
      return []
    wrong: list[Problem] = []
    needed: dict[str, str] = {}  # The file that imports it, by label.
    explained = set(rule.kept)
    for path in rule.srcs:
      imports = self._read(path).imports
      optional = self._explained_by(imports.optional)
      explained |= optional | self._explained_by(imports.named)
      for name in sorted({*imports.needed, *self._packages_above(path)}):
        label = self._label_of(name, rule, path, wrong)
        if label and label not in optional:
          needed.setdefault(label, path)
    for path in rule.data:
      imports = self._read(path).imports
      for names in (imports.needed, imports.optional, imports.named):
        explained |= self._explained_by(names)
    wrong += [
      Problem(_short(rule.label), "add", _short(label), f"imported by {path}")
      for label, path in needed.items()
      if label not in rule.deps
    ]
    wrong += [
      Problem(_short(rule.label), "remove", _short(label), "nothing imports it")
      for label in rule.deps - set(needed) - explained
    ]
    return sorted(set(wrong))

  def _label_of(
    self, name: str, rule: _Rule, importer: str, wrong: list[Problem]
  ) -> str | None:
    """Returns the label of what a name is imported from, if it has one."""
    path = self._file_of(name)
    if path is None:
      distribution = _distribution_of(name)
      if distribution in self._distributions:
        return f"@pypi//{distribution}:{distribution}"
      return None
    if not path or path in rule.srcs:
      return None
    owners = self._importable_owners(path)
    if len(owners) == 1:
      return owners[0].label
    having = " and ".join(sorted(_short(owner.label) for owner in owners))
    wrong.append(
      Problem(
        _short(rule.label),
        "",
        f"{path} is in {having}" if having else f"no library has {path}",
        f"imported by {importer}",
      )
    )
    return None

  def _importable_owners(self, path: str) -> list[_Rule]:
    for kind in ("_library", "_binary"):
      owners = [rule for rule in self._owners[path] if rule.kind.endswith(kind)]
      if owners:
        return owners
    return []

  def _explained_by(self, names: set[str]) -> set[str]:
    """Returns the labels of all that may be what these are imported from."""
    labels = set()
    for name in names:
      path = self._file_of(name)
      if path:
        labels |= {owner.label for owner in self._importable_owners(path)}
      elif path is None:
        distribution = _distribution_of(name)
        labels.add(f"@pypi//{distribution}:{distribution}")
    return labels


def _distribution_of(name: str) -> str:
  top = name.partition(".")[0]
  return "" if top in sys.stdlib_module_names else _DISTRIBUTIONS.get(top, top)


def _locked_distributions(root: str) -> set[str]:
  """Names that @pypi has packages of, as labels spell them."""
  names = set()
  for path in pathlib.Path(root).glob("tools/python/requirements_tf*.txt"):
    for name in re.findall(
      r"^([\w.-]+)(?:\[.*\])?==", path.read_text(encoding="utf-8"), re.M
    ):
      names.add(re.sub(r"[-.]", "_", name.lower()))
  if "tensorflow_cpu" in names:
    names.add("tensorflow")
  return names


def _label(text: str, package: str) -> str:
  """Returns a label in full."""
  if not text.startswith(("//", "@")):
    return f"//{package}:{text.removeprefix(':')}"
  return text if ":" in text else f"{text}:{text.rpartition('/')[2]}"


def _short(label: str, package: str | None = None) -> str:
  """Returns a label as BUILD files write it, in a package or in any."""
  folder, _, name = label.partition(":")
  if folder == f"//{package}":
    return f":{name}"
  return folder if folder.rpartition("/")[2] == name else label


def _glob_pattern(pattern: str) -> re.Pattern[str]:
  parts = []
  for part in re.split(r"(\*\*/|\*\*|\*)", pattern):
    wild = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}
    parts.append(wild.get(part, re.escape(part)))
  return re.compile("".join(parts))


class _Names(dict[str, Any]):
  """The names of a BUILD file; an unknown one is a rule."""

  def __init__(self, files: list[str]):
    super().__init__()
    self._files = files
    # The kind and the attributes of each.
    self.rules: list[tuple[str, dict[str, Any]]] = []
    self.groups: dict[str, list[str]] = {}
    self.update(dict.fromkeys(_NO_RULES, lambda *_, **__: None))
    self["glob"] = self._glob
    self["filegroup"] = self._filegroup

  def __missing__(self, name: str) -> Any:
    if hasattr(builtins, name):
      return getattr(builtins, name)
    return functools.partial(self._record, name)

  def _record(self, kind: str, *_: Any, **attributes: Any) -> None:
    self.rules.append((kind, attributes))

  def _filegroup(self, name: str, srcs: Iterable[str] = (), **_: Any) -> None:
    self.groups[name] = list(srcs)

  def _glob(
    self, include: Iterable[str], exclude: Iterable[str] = (), **_: Any
  ) -> list[str]:
    def matches(patterns: Iterable[str]) -> Callable[[str], bool]:
      compiled = [_glob_pattern(pattern) for pattern in patterns]
      return lambda name: any(one.fullmatch(name) for one in compiled)

    is_in, is_out = matches(include), matches(exclude)
    return [name for name in self._files if is_in(name) and not is_out(name)]


def _read_rules(
  root: str, build_file: str, files: dict[str, list[str]]
) -> Iterator[_Rule]:
  """Yields the rules of a BUILD file."""
  package = os.path.dirname(build_file)
  text = pathlib.Path(root, build_file).read_text(encoding="utf-8")
  tree = ast.parse(text, build_file)
  names = _Names(files[package])
  exec(compile(tree, build_file, "exec"), names)
  kept = _kept_deps(text, tree, package)

  def python_files(sources: Iterable[str]) -> Iterator[str]:
    for source in sources:
      folder, _, name = _label(source, package)[2:].partition(":")
      if folder == package and name in names.groups:
        yield from python_files(names.groups[name])
      elif name.endswith(".py") and name in files.get(folder, ()):
        yield os.path.join(folder, name)

  for kind, attributes in names.rules:
    name = attributes.get("name", "")
    yield _Rule(
      label=f"//{package}:{name}",
      kind=kind,
      srcs=tuple(python_files(attributes.get("srcs", ()))),
      data=tuple(python_files(attributes.get("data", ()))),
      deps=frozenset(
        _label(dep, package) for dep in attributes.get("deps", ())
      ),
      kept=frozenset(kept.get(name, ())),
    )


def _calls_by_name(tree: ast.Module) -> dict[str, ast.Call]:
  calls = {}
  for node in ast.walk(tree):
    if isinstance(node, ast.Call):
      name = _argument(node, "name")
      if name and isinstance(name.value, ast.Constant):
        calls[str(name.value.value)] = node
  return calls


def _argument(call: ast.Call, name: str) -> ast.keyword | None:
  return next((one for one in call.keywords if one.arg == name), None)


def _kept_deps(
  text: str, tree: ast.Module, package: str
) -> dict[str, set[str]]:
  """Labels of `deps` with a comment `# keep:`, by rule."""
  kept: dict[str, set[str]] = {}
  lines = text.split("\n")
  for name, call in _calls_by_name(tree).items():
    deps = _argument(call, "deps")
    if deps:
      kept[name] = {
        _label(dep, package)
        for dep, node in _texts(deps.value)
        if "# keep: " in _comment(lines, node)
      }
  return kept


def _texts(expression: ast.expr) -> Iterator[tuple[str, ast.Constant]]:
  """Yields the texts in an expression."""
  for node in ast.walk(expression):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
      yield node.value, node


def _comment(lines: list[str], node: ast.expr) -> str:
  """Returns the comment behind an entry of a list."""
  rest = lines[(node.end_lineno or node.lineno) - 1].encode()
  text = rest[node.end_col_offset or 0 :].decode().lstrip(", ")
  return text if text.startswith("#") else ""


def check(root: str) -> list[Problem]:
  """Returns what is wrong with the deps of all BUILD files.

  Args:
    root: The folder of the workspace.
  """
  with _no_garbage_collection():
    tree = _Tree(root)
    return [problem for rule in tree.rules for problem in tree.judge(rule)]


def rules_of_sources(root: str) -> dict[str, list[str]]:
  """Returns the labels of the rules that have each Python file in `srcs`.

  Args:
    root: The folder of the workspace.
  """
  found = collections.defaultdict(list)
  for rule in _Tree(root).rules:
    for path in rule.srcs:
      found[path].append(rule.label)
  return dict(found)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
  """Syntax trees have no cycles; to look for some takes most of the time."""
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()


def fix(root: str) -> list[Problem]:
  """Rewrites the deps of all BUILD files.

  Args:
    root: The folder of the workspace.

  Returns:
    The problems that are left.
  """
  changes: dict[str, dict[str, list[Problem]]] = {}
  for problem in check(root):
    if problem.change:
      package, _, name = _label(problem.rule, "")[2:].partition(":")
      rules = changes.setdefault(package, {})
      rules.setdefault(name, []).append(problem)
  for package, rules in changes.items():
    path = pathlib.Path(root, package, "BUILD")
    text = path.read_text(encoding="utf-8")
    path.write_text(_with_changes(text, package, rules), encoding="utf-8")
  return check(root)


def _with_changes(
  text: str, package: str, problems: dict[str, list[Problem]]
) -> str:
  """Returns a BUILD file without the problems of its rules, by name."""
  calls = _calls_by_name(ast.parse(text))
  source = text.encode()  # As ast counts columns.
  edits = []
  for name, changes in problems.items():
    if name in calls:
      edit = _edit(source, calls[name], package, changes)
      if edit:
        edits.append(edit)
  for start, end, new in sorted(edits, reverse=True):
    source = source[:start] + new.encode() + source[end:]
  return source.decode()


def _edit(
  source: bytes, call: ast.Call, package: str, changes: list[Problem]
) -> tuple[int, int, str] | None:
  """Returns the first byte to replace, the one behind the last, and the text.

  None if the deps are no list, which is left to people.
  """
  lines = source.split(b"\n")
  starts = [0]
  for line in lines:
    starts.append(starts[-1] + len(line) + 1)

  def end_of(node: ast.expr | ast.keyword) -> int:
    return starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

  is_one_line = call.lineno == call.end_lineno
  last = call.keywords[-1]
  indent = " " * (call.col_offset if is_one_line else last.col_offset)
  old = _argument(call, "deps")
  entries = old.value if old else ast.List([])
  if not isinstance(entries, ast.List):
    return None
  comments = _comments(source.decode().split("\n"), entries, package)
  for change in changes:
    label = _label(change.label, "")
    if change.change == "add":
      comments[label] = ([], "")
    else:
      del comments[label]
  new = f"deps = {_list_text(comments, package, indent)}"
  if old is None:
    end, close = end_of(last), end_of(call) - 1
    behind = source[end:close].decode()
    if is_one_line:
      return end, close, f", {new}"
    comma = "" if behind.lstrip().startswith(",") else ","
    return end, close, f"{comma}{behind}{indent}{new},\n"
  start = starts[old.lineno - 1]
  if not comments and not is_one_line:
    return start, starts[old.end_lineno or 0], ""
  return start + old.col_offset, end_of(old), new


def _comments(
  lines: list[str], entries: ast.List, package: str
) -> dict[str, tuple[list[str], str]]:
  """Returns the comments above and behind each label of a list."""
  comments = {}
  for text, entry in _texts(entries):
    above: list[str] = []
    number = entry.lineno - 1
    if lines[number].lstrip().startswith('"'):
      while (line := lines[number - 1].strip()).startswith("#"):
        above.insert(0, line)
        number -= 1
    comments[_label(text, package)] = (above, _comment(lines, entry))
  return comments


def _list_text(
  comments: dict[str, tuple[list[str], str]], package: str, indent: str
) -> str:
  """Returns a list of commented labels as Buildifier writes it."""
  names = {_short(label, package): label for label in comments}
  written = []
  for name in sorted(names, key=_sort_key):
    above, behind = comments[names[name]]
    line = f'"{name}",' + (f"  {behind}" if behind else "")
    written += [f"{indent}    {one}\n" for one in (*above, line)]
  if len(written) == 1 and "#" not in written[0]:
    return f"[{written[0].strip()[:-1]}]"
  return f"[\n{''.join(written)}{indent}]"


def _sort_key(label: str) -> tuple[int, list[str], str]:
  """Returns what Buildifier sorts by: those of the package come first."""
  place = 3 if label[0] == "@" else 2 if label[:2] == "//" else 1
  return place, label.replace(":", ".").split("."), label


def main() -> None:
  """Prints the problems, and exits with 1 if there are any."""
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--fix", action="store_true", help="rewrite the deps")
  parser.add_argument("--root", default=str(pathlib.Path(__file__).parents[1]))
  arguments = parser.parse_args()
  problems = (fix if arguments.fix else check)(arguments.root)
  for problem in problems:
    print(problem)
  sys.exit(1 if problems else 0)


if __name__ == "__main__":
  main()
