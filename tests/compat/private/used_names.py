"""Finds the private names that wheels, and compat, use: it reads their code.

Of a wheel they are what it imports from `tensorflow.python`, and what it takes
from the modules that it imports. Of compat they are those of other packages,
too; what it has in tables; and attributes, of which code does not say whose
they are: OWNERS does. Names of wheels that are pinned do not count.
"""

import ast
import importlib.util
import pathlib
import re
from collections.abc import Iterator, Mapping

from compat.private import kept_names, missing_names
from compat.private.v1 import inside, moved_names
from tests.packaging import private_names

# The import packages of wheels, by what pip calls them.
WHEELS: Mapping[str, str] = {
  "tensorflow-estimator": "tensorflow_estimator",
  "tensorflow-probability": "tensorflow_probability",
  "tf-keras": "tf_keras",
  "tf-slim": "tf_slim",
}
_INSIDES = "tensorflow.python"
_PACKAGES = (_INSIDES, "tensorflow.core", "keras.src", "tf_keras.src")
_OTHERS = ("absl.", "tensorflow_estimator.")
_IMPORT = re.compile(r"importlib\.import_module\('([\w.]+)'\)")

_V1 = "tensorflow.compat.v1"
# What compat asks objects for, by the module or class that has it.
OWNERS: Mapping[str, tuple[str, ...]] = {
  "tensorflow": ("_tf_uses_legacy_keras",),
  "tensorflow.Graph": (
    "_c_graph",
    "_get_function",
    "_mutation_lock",
    "_names_in_use",
  ),
  "tensorflow.Operation": (
    "_add_control_inputs",
    "_control_flow_context",
    "_from_c_op",
    "_get_control_flow_context",
    "_gradient_function",
    "_node_def",
    "_original_op",
    "_remove_all_control_inputs",
    "_set_attr",
    "_set_control_flow_context",
    "_set_device",
    "_update_input",
  ),
  f"{_INSIDES}.framework.ops.SymbolicTensor": ("_as_tf_output",),
  "tensorflow.TensorShape": ("_v2_behavior",),
  "tensorflow.Variable": ("_save_slice_info",),
  f"{_V1}.train.AdagradOptimizer": ("_learning_rate_tensor",),
  f"{_V1}.train.AdamOptimizer": (
    "_beta1_t",
    "_beta2_t",
    "_epsilon_t",
    "_get_beta_accumulators",
    "_lr_t",
  ),
  f"{_V1}.train.CheckpointSaverHook": ("_listeners",),
  f"{_V1}.train.Optimizer": (
    "_apply_dense",
    "_apply_sparse",
    "_create_non_slot_variable",
    "_get_non_slot_variable",
    "_get_or_make_slot",
    "_name",
    "_resource_apply_dense",
    "_resource_apply_sparse",
    "_zeros_slot",
  ),
  f"{_INSIDES}.eager.polymorphic_function.concrete_function.ConcreteFunction": (
    "_get_gradient_function",
  ),
  f"{_INSIDES}.feature_column.feature_column._FeatureColumn": (
    "_var_scope_name",
  ),
  f"{_INSIDES}.ops.control_flow_ops.ControlFlowContext": ("_outer_context",),
  f"{_INSIDES}.ops.resource_variable_ops.ResourceVariable": ("_graph_element",),
  f"{_INSIDES}.ops.summary_ops_v2._ResourceSummaryWriter": ("_resource",),
  "tf_keras.src.backend": ("_SEED_GENERATOR",),
  "tf_keras.src.engine.training.Model": ("_get_compile_args",),
  "tf_keras.src.optimizers.legacy.optimizer_v2.OptimizerV2": ("_hyper",),
  "tf_keras.src.optimizers.sgd.SGD": ("_learning_rate",),
}
# Of Python, and of wheels that are pinned: tensorflow-estimator and tf-slim.
PINNED = (
  "_call_input_fn",
  "_call_model_fn",
  "_cluster_spec",
  "_config",
  "_ctx",
  "_distribute_coordinator_mode",
  "_evaluation_master",
  "_experimental_distribute",
  "_getframe",
  "_global_id_in_cluster",
  "_init_distributed_setting_from_environment_var",
  "_is_chief",
  "_is_input_fn_invoked",
  "_lower_bound_grad",
  "_master",
  "_maybe_overwrite_session_config_for_distributed_training",
  "_model_fn",
  "_num_ps_replicas",
  "_num_worker_replicas",
  "_service",
  "_session_config",
  "_start_continuous_evaluation",
  "_task_id",
  "_task_type",
  "_train_distribute",
  "_use_tpu",
)

# The module or class, and the name there.
Name = tuple[str, str]


def of_code(source: str, packages: tuple[str, ...] = (_INSIDES,)) -> set[Name]:
  """Returns the names that a file imports, and takes from what it imports.

  Args:
    source: the text of a Python file.
    packages: those whose names count.
  """
  tree = ast.parse(source)
  places = dict(_imports(tree, packages))
  names = {_split(place) for place in places.values()}
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in places:
      names.add((places[ast.unparse(node.value)], node.attr))
  return names


def _imports(
  tree: ast.AST, packages: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
  """What code calls what it imports, and what that is."""
  for node in ast.walk(tree):
    found = []
    if isinstance(node, ast.Import):
      found = [(one.asname or one.name, one.name) for one in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
      found = [
        (one.asname or one.name, f"{node.module}.{one.name}")
        for one in node.names
      ]
    elif isinstance(node, ast.Call):
      found = [(ast.unparse(node), _imported(node))]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
      target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
      )
      found = [(ast.unparse(target), _imported(node.value))]
    for local, place in found:
      is_one = place.startswith(tuple(f"{package}." for package in packages))
      if is_one:
        yield local, place


def _imported(node: ast.AST | None) -> str:
  """The module that importlib.import_module imports, by an expression."""
  called = _IMPORT.fullmatch(ast.unparse(node)) if node else None
  return called[1] if called else ""


def _split(place: str) -> Name:
  module, _, name = place.replace(":", ".").rpartition(".")
  return module, name


def of_wheel(wheel: str) -> set[Name]:
  """Returns the names of TensorFlow that an installed wheel uses.

  Those of its tests, and of what its tests are made with, do not count.

  Args:
    wheel: what pip calls it.
  """
  spec = importlib.util.find_spec(WHEELS[wheel])
  assert spec is not None and spec.origin is not None
  folder = pathlib.Path(spec.origin).parent
  names: set[Name] = set()
  for path in folder.rglob("*.py"):
    if "test" not in str(path.relative_to(folder)):
      text = path.read_text(encoding="utf-8")
      if _INSIDES in text:
        names |= of_code(text)
  return names


def of_compat() -> Iterator[tuple[str, Name]]:
  """Returns the paths of files in compat/private, each with a name it uses."""
  for path in private_names.sources(private_names.PRIVATE):
    source = (private_names.ROOT / path).read_text(encoding="utf-8")
    for name in of_code(source, _PACKAGES):
      yield path, name
    for owner, attribute in attributes(path):
      yield path, (owner, attribute)
  for path, place in _tables():
    if not place.startswith(_OTHERS):
      yield f"{private_names.PRIVATE}/{path}", _split(place)


def attributes(path: str) -> Iterator[Name]:
  """Returns the private attributes that a file asks objects for.

  Args:
    path: of a file in compat/private, from the root.

  Returns:
    Their owners and names; "" is the owner of one that nobody has.
  """
  source = (private_names.ROOT / path).read_text(encoding="utf-8")
  of_modules = {
    name for _, name in of_code(source, private_names.PRIVATE_MODULES)
  }
  for _, name in private_names.private_attributes(path):
    if name not in of_modules and name not in PINNED:
      owners = [owner for owner, names in OWNERS.items() if name in names]
      yield from ((owner, name) for owner in owners or [""])


def _tables() -> Iterator[tuple[str, str]]:
  """Files of compat/private, and what they have as text: "module:name"."""
  for moved in missing_names.MOVED_NAMES:
    yield "missing_names.py", f"{moved.module}:{moved.name}"
  for module in missing_names.SUPPLIED_MODULES:
    yield "missing_names.py", module.name
  yield "missing_names.py", f"{missing_names.TF_EXPORT}:ESTIMATOR_API_NAME"
  for name in missing_names.TPU_EXPERIMENTAL_NAMES:
    yield "missing_names.py", f"{_V1}.tpu.experimental:{name}"
  for places in kept_names.PLACES.values():
    for place in places.values():
      yield "kept_names.py", place
  for place in moved_names.ELSEWHERE.values():
    yield "v1/moved_names.py", f"{_INSIDES}.{place}"
  for place in moved_names.MODULES.values():
    yield "v1/moved_names.py", place
  files = [
    *inside._MOVED.values(),
    *(file for _, file in inside._TWINS.values()),
  ]
  for file in files:
    yield "v1/inside.py", f"tf_keras.src.{file}"


def used_here() -> dict[Name, set[str]]:
  """Returns all private names, each with the files and wheels that use it."""
  used: dict[Name, set[str]] = {}
  for path, name in of_compat():
    used.setdefault(name, set()).add(path)
  for wheel in WHEELS:
    for name in of_wheel(wheel):
      used.setdefault(name, set()).add(wheel)
  return used
