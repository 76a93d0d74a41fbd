"""Benchmark: published results beside those that the simulator has for them.

The rows of benchmarks/published are simulated from their published parameters,
by the functions of `predictions`. Their tables go into docs/scaling.md, and a
picture of what the simulator expects of two models beyond them.

  ./bazelw run //benchmarks:scaling
"""

import dataclasses
import os
import re
import statistics
from collections.abc import Iterator, Sequence

from benchmarks import figures, predictions
from benchmarks.predictions import Ranker, Table, Transformer
from estimator_mp.machines import machine as machines
from estimator_mp.observe import drawing

from absl import app, flags

_DOCS = os.path.join(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ""), "docs")
_PAGE = flags.DEFINE_string(
  "page",
  os.path.join(_DOCS, "scaling.md"),
  "The page to write into; nothing if empty.",
)
_PICTURES = flags.DEFINE_string(
  "pictures",
  os.path.join(_DOCS, "pictures"),
  "The folder to draw scaling.png and scaling.svg into; nothing if empty.",
)

BOUND = 0.1
_BEGIN = "<!-- written by //benchmarks:scaling -->"
_END = "<!-- end of what it writes -->"
_BLOCK = re.compile(f"(?<={_BEGIN}\n).*(?={_END})", re.DOTALL)
# Fields of a row that are no columns: inputs that are long or have units.
_HIDDEN = (
  "published",
  "images_per_s",
  "balance",
  "forward",
  "backward",
  "weight",
  "send",
)
_EASY = ("data_parallel", "scaling_efficiency", "bubble_rate")
# How titles of tables begin on whose rows, or images/s, something is fitted.
_FITTED_ON = (
  "DLRM of NVIDIA",
  "Horovod",
  "Megatron-LM: weak scaling",
  "NVIDIA's ResNet-50",
  "TensorFlow's benchmarks",
  "torchgpipe",
)
# The devices of the picture.
_SIZES = tuple(2**x for x in range(3, 13))


def columns(table: Table) -> list[str]:
  """Returns the fields in which the rows of a table differ."""
  return [
    name
    for name in table.rows[0]
    if name not in _HIDDEN
    and len({str(row.get(name)) for row in table.rows}) > 1
  ]


def cells(table: Table) -> list[str]:
  """Returns the cells of each row that are data, as Markdown."""
  return [
    " | ".join(
      [str(row[name]) for name in columns(table)] + [number(row["published"])]
    )
    for row in table.rows
  ]


def number(value: float) -> str:
  """Returns a number with as many digits as tables have."""
  return f"{value:.0f}" if 1e3 <= value < 1e6 else f"{value:.4g}"


def markdown(table: Table, simulated: Sequence[float]) -> str:
  """Returns a table, theirs beside ours, with the error of each row."""
  errors = [f"{x:+.1%}" for x in table.errors(simulated)]
  errors = ["basis"] * table.has_basis + errors
  titles = [x.replace("_", " ") for x in columns(table)]
  titles += ["published", "simulated", "error"]
  lines = [
    f"### {table.title}\n",
    f"{table.unit[0].upper() + table.unit[1:]}. {table.source}.\n",
    f"| {' | '.join(titles)} |",
    f"| {' | '.join('---' for _ in titles)} |",
  ]
  for start, ours, error in zip(cells(table), simulated, errors, strict=True):
    lines.append(f"| {start} | {number(ours)} | {error} |")
  return "\n".join(lines) + "\n"


def overview(tables: Sequence[Table], found: Sequence[Sequence[float]]) -> str:
  """Returns the errors of all tables, and of all rows."""
  lines = [
    "| table | rows | median error | greatest |",
    "| --- | --- | --- | --- |",
  ]
  sizes = [
    [abs(x) for x in table.errors(simulated)]
    for table, simulated in zip(tables, found, strict=True)
  ]
  named = [
    *zip([x.title for x in tables], sizes, strict=True),
    ("all rows", [x for of_table in sizes for x in of_table]),
  ]
  for title, errors in named:
    lines.append(
      f"| {title} | {len(errors)} | {statistics.median(errors):.1%} | "
      f"{max(errors):.1%} |"
    )
  hard = [
    x
    for table, errors in zip(tables, sizes, strict=True)
    if table.kind not in _EASY
    for x in errors
  ]
  apart = [
    x
    for table, errors in zip(tables, sizes, strict=True)
    if table.kind not in _EASY and not table.title.startswith(_FITTED_ON)
    for x in errors
  ]
  return "\n".join(lines) + (
    f"\n\nThe median of the tables' medians is "
    f"{statistics.median(map(statistics.median, sizes)):.1%}. Without data "
    f"parallelism and rates of\nbubbles, where little has to be known, that of "
    f"the {len(hard)} other rows is {statistics.median(hard):.1%}.\nOf "
    f"these, {len(apart)} are of tables on which nothing is fitted: "
    f"{statistics.median(apart):.1%}.\n"
  )


def read_block(text: str) -> str:
  """Returns what this program has written into a page."""
  (block,) = _BLOCK.findall(text)
  return str(block)


def _fitted() -> str:
  """Returns what is fitted, as a table."""
  notes = dict(
    re.findall(
      r"^ {4}(\w+): (.*?)(?=\n {4}\w+: |\n {2,4}$|\Z)",
      predictions.Fitted.__doc__ or "",
      re.MULTILINE | re.DOTALL,
    )
  )
  lines = ["| parameter | value | what it is |", "| --- | --- | --- |"]
  for name, value in dataclasses.asdict(predictions.FITTED).items():
    lines.append(f"| {name} | {value:g} | {' '.join(notes[name].split())} |")
  return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Point:
  """What is expected of a number of devices.

  Attributes:
    devices: How many there are.
    examples: The examples of a step.
    seconds: Its time.
    mesh: How the devices are used.
  """

  devices: int
  examples: int
  seconds: float
  mesh: str

  @property
  def rate(self) -> float:
    """Examples per second and device."""
    return self.examples / (self.seconds * self.devices)


def _bert(devices: int) -> Point:
  """Returns the fastest step of BERT-large, of 4,096 sequences."""
  model = Transformer(
    predictions.reached("h100"),
    layers=24,
    hidden=1024,
    heads=16,
    vocabulary=30522,
    sequence=512,
    batch=4096,
    gpus=devices,
    recompute="never",
    buckets=8,
  )
  best: tuple[float, Transformer] | None = None
  for stages, size in ((x, y) for x in (1, 2, 4, 8) for y in (1, 2, 4, 8)):
    for micro_batch in (1, 4, 16, 64):
      tried = dataclasses.replace(
        model, stages=stages, model=size, micro_batch=micro_batch
      )
      if not tried.data or tried.batch % (tried.data * micro_batch):
        continue
      step = tried.simulate()
      if tried.fits(step) and (best is None or step.seconds < best[0]):
        best = step.seconds, tried
  assert best
  seconds, fastest = best
  sizes = ("data", fastest.data), ("stage", fastest.stages)
  mesh = ",".join(
    f"{name}:{size}"
    for name, size in (*sizes, ("model", fastest.model))
    if size > 1
  )
  return Point(devices, model.batch, seconds, mesh)


def _ranker(devices: int) -> Point | None:
  """Returns a step of a ranker with tables of 1 TB, if they fit."""
  batch = 8192 * devices
  machine = predictions.reached("h100")
  model = Ranker(
    machine,
    devices,
    batch,
    "float16",
    tables=26,
    embedding_dim=128,
    numerical=13,
    bottom=(512, 256, 128),
    top=(1024, 1024, 512, 256, 1),
    table_bytes=1e12,
  )
  step = model.simulate()
  if step.memory_bytes > machine.device.memory_bytes:
    return None
  return Point(devices, batch, step.seconds, f"data:{devices}")


def _draw(points: dict[str, list[Point]], folder: str) -> None:
  """Draws the time of a step, beside that of linear scaling."""
  name = machines.load("h100").name
  with drawing.figure(
    (9.0, 3.6),
    "Simulated steps on 8 to 4,096 devices",
    f"{name}. Dashed: linear scaling. Not measured.",
  ) as picture:
    import matplotlib.ticker

    axes = picture.subplots(1, len(points))
    for axis, (title, row) in zip(axes, points.items(), strict=True):
      sizes = [x.devices for x in row]
      linear = [1e3 / (row[0].rate * x.devices) * x.examples for x in row]
      axis.plot(sizes, linear, "--", color=drawing.FAINT)
      axis.plot(sizes, [1e3 * x.seconds for x in row], "o-")
      for point in row:
        axis.annotate(
          point.mesh.replace(",", "\n"),
          (point.devices, 1e3 * point.seconds),
          (2, 6),
          textcoords="offset points",
          fontsize=6,
        )
      axis.set(title=title, xscale="log", xlabel="devices", ylabel="ms a step")
      axis.set_xticks(_SIZES, [str(x) for x in _SIZES])
      if row[0].examples == row[-1].examples:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(
          matplotlib.ticker.StrMethodFormatter("{x:g}")
        )
      else:
        axis.set_ylim(0, 1.5e3 * max(x.seconds for x in row))
      axis.minorticks_off()
      axis.grid(color=drawing.GRID)
    drawing.save(picture, folder, "scaling")


def expected() -> dict[str, list[Point]]:
  """Returns what is expected of two models, by their titles."""
  return {
    "BERT-large, 4,096 sequences of 512 a step": [*map(_bert, _SIZES)],
    "DLRM, tables of 1 TB, 8,192 examples a device": [
      x for x in map(_ranker, _SIZES) if x
    ],
  }


def _points(points: dict[str, list[Point]]) -> Iterator[str]:
  """Yields tables of what is expected."""
  for title, row in points.items():
    yield f"### {title}\n"
    yield "| devices | mesh | ms a step | examples/s a device |"
    yield "| --- | --- | --- | --- |"
    for x in row:
      milliseconds = number(1e3 * x.seconds)
      yield f"| {x.devices} | {x.mesh} | {milliseconds} | {number(x.rate)} |"
    yield ""


def main(argv: list[str]) -> None:
  """Simulates all rows, and writes the page and the picture."""
  del argv
  tables = predictions.load()
  found = [x.simulated() for x in tables]
  points = expected()
  parts = [
    overview(tables, found),
    "## What is fitted\n",
    _fitted(),
    "## Beyond what is published\n",
    "![Step times](pictures/scaling.png)\n",
    *_points(points),
    "## All rows\n",
    *map(markdown, tables, found),
  ]
  block = "\n".join(parts)
  print(block)
  if _PAGE.value:
    with open(_PAGE.value, encoding="utf-8") as file:
      text = file.read()
    read_block(text)
    with open(_PAGE.value, "w", encoding="utf-8") as file:
      file.write(_BLOCK.sub(lambda _: f"\n{block}\n", text))
  if _PICTURES.value:
    _draw(points, _PICTURES.value)
  errors = [
    tuple(abs(x) for x in table.errors(simulated))
    for table, simulated in zip(tables, found, strict=True)
  ]
  named = [
    *zip([x.title for x in tables], errors, strict=True),
    ("all rows", tuple(x for of_table in errors for x in of_table)),
  ]
  figures.save(
    [
      figures.Figure(f"{title}: error", "", x, (BOUND,), True, is_aim=True)
      for title, x in named
    ]
  )


if __name__ == "__main__":
  app.run(main)
