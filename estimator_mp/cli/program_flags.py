"""The options of commands that look at a user's model: plan and compare.

It is the model_fn of a flag, or that of the first Estimator that a program
trains; or else a model of this project.
"""

import dataclasses
from typing import Any

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

MODEL = options_lib.Group("Model and data")
TENSORFLOW = options_lib.Group("Your program's TensorFlow")
ARGUMENTS = "[-m] PROGRAM ARGS..."


@dataclasses.dataclass(frozen=True)
class ProgramOptions(commands.ShardedOptions):
  """The user's model, and which TensorFlow it sees; docs/tensorflow1.md.

  Attributes:
    model_fn: The model_fn of your Estimator, as module:function. Modules in the
      current directory are found, too. By default a model of this project.
    params: The Estimator's params as JSON: {"units": 64}.
    contrib: Bring back tf.contrib for your program.
    v1: Give your program the tf of TensorFlow 1.15, with tf.contrib: for
      programs written for TensorFlow 1.
    v1_packages: With --v1: installed packages that belong to your program, such
      as bert,modeling.
    v2_control_flow: With --v1: use TensorFlow 2's loops and conditions.
    resource_variables: With --v1: use TensorFlow 2's variables.
    program: A script or -m and a module, with its arguments; empty for none.
  """

  mesh: str = sharding_options.MESH("stage:3")
  model_fn: str | None = MODEL(None)
  params: Any = MODEL(None)
  contrib: bool = TENSORFLOW(False)
  v1: bool = TENSORFLOW(False)
  v1_packages: str | None = TENSORFLOW(None)
  v2_control_flow: bool = TENSORFLOW(False)
  resource_variables: bool = TENSORFLOW(False)
  program: tuple[str, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("v1_packages", "v2_control_flow", "resource_variables"):
      if getattr(self, name) and not self.v1:
        raise commands.FlagsError(
          f"--{name} is for programs of TensorFlow 1; give --v1, too"
        )
    if not isinstance(self.params, dict | None):
      raise commands.FlagsError(
        f"--params={self.params} is not a JSON object; write it like "
        '{"units": 64}'
      )

  def check_model(self, needed: str, example: str, *others: str) -> None:
    """Raises if the flags of the model do not fit together.

    Args:
      needed: The flag that a model_fn needs besides.
      example: The meaning of that flag, and how it is written.
      *others: Other flags that are of a model_fn only.

    Raises:
      FlagsError: If it does not.
    """
    of_model_fn = (needed, *others, "params")
    given = [
      name
      for name in ("model_fn", *of_model_fn, "contrib", "v1")
      if getattr(self, name) not in (None, False)
    ]
    if self.program:
      for name in given:
        if name in ("model_fn", *of_model_fn):
          raise commands.FlagsError(
            f"--{name} is given beside the program {self.program[0]}, which "
            "sets that itself; leave one of them out"
          )
      if self.program == ("-m",):
        raise commands.FlagsError(
          "-m is given without a module; write one after it"
        )
      if self.program[0] != "-m":
        commands.check_script(self.program[0])
    elif self.model_fn is None:
      for name in given:
        raise commands.FlagsError(
          f"--{name} is given without --model_fn; give the model, such as "
          "--model_fn=my_model:model_fn, or -- and your program"
        )
    elif needed not in given:
      raise commands.FlagsError(
        f"--model_fn={self.model_fn} needs --{needed}: {example}"
      )
    else:
      check_function("model_fn", self.model_fn)


def check_function(flag: str, name: str) -> None:
  """Raises if a text is no module:function.

  Args:
    flag: The flag that has it.
    name: The text.

  Raises:
    FlagsError: If it is none.
  """
  module, colon, function = name.partition(":")
  if not (module and colon and function):
    raise commands.FlagsError(
      f"--{flag}={name} is not module:function; write it like my_model:{flag}"
    )
