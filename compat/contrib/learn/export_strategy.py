"""tf.contrib.learn.ExportStrategy: how an Experiment exports its model."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class ExportStrategy(
  NamedTuple(
    "ExportStrategy",
    [
      ("name", str),
      ("export_fn", Callable[..., Any]),
      ("strip_default_attrs", bool | None),
    ],
  )
):
  """A name and a function that exports; Experiment's `export_strategies`.

  Attributes:
    name: the folder below model_dir/export.
    export_fn: called with the estimator, the folder, and if it takes them
      `checkpoint_path`, `eval_result` and `strip_default_attrs`.
    strip_default_attrs: whether attributes with default values are left out.
  """

  def __new__(
    cls,
    name: str,
    export_fn: Callable[..., Any],
    strip_default_attrs: bool | None = None,
  ) -> "ExportStrategy":
    """Makes the strategy; the arguments are the attributes."""
    return super().__new__(cls, name, export_fn, strip_default_attrs)

  def export(
    self,
    estimator: Any,
    export_path: str | bytes,
    checkpoint_path: str | None = None,
    eval_result: Any = None,
  ) -> Any:
    """Exports a model.

    Args:
      estimator: the model.
      export_path: the folder that gets the export.
      checkpoint_path: which checkpoint; the latest by default.
      eval_result: what evaluating that checkpoint gave.

    Returns:
      The result of export_fn, the path of the export.

    Raises:
      ValueError: if export_fn wants an eval_result and there is none.
    """
    parameters = inspect.signature(self.export_fn).parameters
    optional: dict[str, Any] = {}
    if "checkpoint_path" in parameters:
      optional["checkpoint_path"] = checkpoint_path
    if "eval_result" in parameters:
      if eval_result is None:
        raise ValueError(
          f"The export strategy {self.name!r} takes an eval_result, but "
          "nothing was evaluated before it was called."
        )
      optional["eval_result"] = eval_result
    if "strip_default_attrs" in parameters:
      if self.strip_default_attrs is None:
        raise ValueError(
          f"The export strategy {self.name!r} takes strip_default_attrs; give "
          "it to ExportStrategy, True or False."
        )
      optional["strip_default_attrs"] = self.strip_default_attrs
    return self.export_fn(estimator, export_path, **optional)
