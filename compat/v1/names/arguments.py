"""Functions that take arguments by other names, or in another order, today."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

_SCATTER = "tensor indices updates name"

# By the path below `tf`: the arguments in 1.15's order. "old=new" has another
# name today, "-old" has gone and had no effect on results.
ORDER: Mapping[str, str] = {
  "autograph.experimental.set_loop_options": (
    "parallel_iterations -back_prop swap_memory maximum_iterations"
  ),
  "config.experimental.set_virtual_device_configuration": (
    "device virtual_devices=logical_devices"
  ),
  "function": (
    "func input_signature autograph experimental_autograph_options "
    "experimental_relax_shapes experimental_compile"
  ),
  "image.adjust_jpeg_quality": "image jpeg_quality name",
  "keras.preprocessing.text.one_hot": "text=input_text n filters lower split",
  "keras.preprocessing.text.text_to_word_sequence": (
    "text=input_text filters lower split"
  ),
  "keras.utils.model_to_dot": (
    "model show_shapes show_layer_names rankdir expand_nested dpi subgraph"
  ),
  "keras.utils.plot_model": (
    "model to_file show_shapes show_layer_names rankdir expand_nested dpi"
  ),
  "keras.utils.serialize_keras_object": "instance=obj",
  "linalg.matmul": (
    "a b transpose_a transpose_b adjoint_a adjoint_b a_is_sparse b_is_sparse "
    "name"
  ),
  "manip.scatter_nd": "indices updates shape name",
  "math.top_k": "input k sorted name",
  "matmul": (
    "a b transpose_a transpose_b adjoint_a adjoint_b a_is_sparse b_is_sparse "
    "name"
  ),
  "nn.top_k": "input k sorted name",
  "numpy_function": "func inp Tout name",
  "random.experimental.create_rng_state": "seed algorithm=alg",
  "scatter_nd": "indices updates shape name",
  "tensor_scatter_add": _SCATTER,
  "tensor_scatter_nd_add": _SCATTER,
  "tensor_scatter_nd_sub": _SCATTER,
  "tensor_scatter_sub": _SCATTER,
}


def with_order(function: Callable[..., Any], order: str) -> Callable[..., Any]:
  """Returns a function that is called as 1.15's was.

  Args:
    function: today's.
    order: 1.15's arguments, as in `ORDER`.
  """
  pairs = [text.partition("=") for text in order.split()]
  renamed = {old.lstrip("-"): new or old for old, _, new in pairs}
  places = list(renamed)

  @functools.wraps(function)
  def call(*args: Any, **kwargs: Any) -> Any:
    if len(args) > len(places):
      raise TypeError(
        f"{function.__name__}() takes {len(places)} arguments by place, not "
        f"{len(args)}: {', '.join(places)}."
      )
    for name, value in zip(places, args, strict=False):
      if name in kwargs:
        raise TypeError(
          f"{function.__name__}() got the argument {name!r} twice."
        )
      kwargs[name] = value
    named = {renamed.get(name, name): value for name, value in kwargs.items()}
    return function(
      **{name: one for name, one in named.items() if name[:1] != "-"}
    )

  vars(call)["__signature__"] = _signature(function, renamed)
  return call


def _signature(
  function: Callable[..., Any], renamed: Mapping[str, str]
) -> inspect.Signature:
  """The arguments of 1.15, then those that are new, by name only."""
  today = dict(inspect.signature(function).parameters)
  by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
  gone = inspect.Parameter("_", by_place, default=None)
  before = [
    today.pop(new, gone).replace(name=old, kind=by_place)
    for old, new in renamed.items()
  ]
  return inspect.Signature(
    [
      *before,
      *(
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in today.values()
      ),
    ]
  )
