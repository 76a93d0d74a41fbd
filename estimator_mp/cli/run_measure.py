"""The measure command: the rates of this machine, as a table and as a file."""

import os

from estimator_mp import amounts
from estimator_mp.cli import measure_flags, model_dirs
from estimator_mp.machines import machine as machine_lib
from estimator_mp.machines import measure


def run_command(options: measure_flags.MeasureOptions) -> int:
  """Prints what is measured, and writes the machine's file; returns 0.

  Args:
    options: The options of the command.

  Raises:
    ValueError: The file cannot be written.
  """
  if options.out is not None:
    if os.path.isdir(options.out):
      raise ValueError(f"out={options.out} is a directory; give a file's path")
    model_dirs.make_writable("out", os.path.dirname(options.out))
  machine, rates = measure.measure(options.seconds)
  products = [("product", *next(iter(rates.values())))]
  for size, row in rates.items():
    values = [amounts.amount(x, "FLOP/s") for x in row.values()]
    products.append((f"{size} x {size}", *values))
  links = [("link", "latency", "bandwidth")]
  for link in machine.links:
    latency = f"{1e6 * link.latency:.3g} us"
    links.append((link.level, latency, amounts.amount(link.bandwidth, "B/s")))
  for table in (products, links):
    print("\n".join([*amounts.columns(table, 1), ""]))
  text = machine_lib.to_toml(machine)
  if options.out is not None:
    with open(options.out, "w", encoding="utf-8") as file:
      file.write(text)
  print(options.out or text)
  return 0
