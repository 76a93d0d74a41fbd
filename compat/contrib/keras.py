"""tf.contrib.keras: tf.keras under its second name."""

from typing import Any

from compat.contrib import second_names

__path__: list[str] = []  # Its namespaces can be imported.


def __getattr__(name: str) -> Any:
  if name in ("__file__", "__wrapped__"):
    raise AttributeError(name)
  return getattr(second_names.view("keras"), name)


def __dir__() -> list[str]:
  return dir(second_names.view("keras"))
