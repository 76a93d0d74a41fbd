"""Draws what the tasks of a cluster run, in both kinds of clusters.

    python -m tools.draw_cluster

writes docs/pictures/cluster/roles.png. What a task holds of the mesh is what
`estimator_mp.cluster` says of it.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from estimator_mp.cluster import layout, tasks
from tools import sheet

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDER = pathlib.Path("docs", "pictures", "cluster")
_STAGES = 3

# In inches.
_BOX_WIDTH, _BOX_HEIGHT, _GAP, _ROW_GAP, _MARGIN = 2.1, 0.92, 0.3, 0.5, 0.25
_TITLE_HEIGHT, _DISK_HEIGHT = 0.42, 0.36
_WIDTH = 4 * _BOX_WIDTH + 3 * _GAP + 2 * _MARGIN
_DRIVES, _HOLDS, _BESIDE, _DISK = "#dbe9f6", "#f3f4f6", "#eef6ec", "#faf3e3"

_IN_GRAPH = {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"]}
CLUSTERS = (_IN_GRAPH, {**_IN_GRAPH, "ps": ["d:2222", "e:2222"]})
_TITLES = {
  False: "In-graph, without ps: one model, whose mesh spans the tasks",
  True: "Between-graph, with ps: a model on each worker, whose variables are "
  "on the parameter servers",
}
_EVALUATOR = tasks.Task(tasks.EVALUATOR, 0)


@dataclasses.dataclass(frozen=True)
class Box:
  """A task in a picture.

  Attributes:
    task: The task.
    lines: The lines of text that say what it does.
    color: The color that it is filled with.
  """

  task: tasks.Task
  lines: tuple[str, ...]
  color: str


def rows_of(jobs: dict[str, list[str]]) -> list[list[Box]]:
  """Returns the tasks in rows: parameter servers, if any, and the others.

  Args:
    jobs: The cluster of a TF_CONFIG, with a chief.
  """
  cluster = _cluster(jobs, tasks.Task("chief", 0))
  servers = [x for x in cluster.tasks if x.job == tasks.PARAMETER_SERVER]
  others = [x for x in cluster.tasks if x not in servers]
  rows = [[_box(jobs, task) for task in row] for row in (servers, others)]
  rows[1].append(_box(jobs, _EVALUATOR))
  return [row for row in rows if row]


def _cluster(jobs: dict[str, list[str]], task: tasks.Task) -> tasks.Cluster:
  """Returns what a task of a cluster reads in TF_CONFIG."""
  said = {"cluster": jobs, "task": {"type": task.job, "index": task.index}}
  found = tasks.from_environment({"TF_CONFIG": json.dumps(said)})
  if found is None:
    raise ValueError(f"{jobs} is no cluster")
  return found


def _box(jobs: dict[str, list[str]], task: tasks.Task) -> Box:
  cluster = _cluster(jobs, task)
  if task.job == tasks.EVALUATOR:
    lines = ["evaluates each checkpoint", f"holds {_held(cluster)}"]
    return Box(task, tuple(lines), _BESIDE)
  if task.job == tasks.PARAMETER_SERVER:
    lines = ["serves", "holds variables and slots"]
    return Box(task, tuple(lines), _HOLDS)
  lines = [f"holds {_held(cluster)}"]
  drives = task == cluster.chief or cluster.is_between_graph
  if drives:
    lines.insert(0, "its session drives all stages")
  else:
    lines.insert(0, "serves")
  if task == cluster.chief:
    lines.append("summaries; asks for checkpoints")
  return Box(task, tuple(lines), _DRIVES if drives else _HOLDS)


def _held(cluster: tasks.Cluster) -> str:
  """Returns which stages a task has, as it says of itself."""
  mesh_tasks = cluster.mesh_tasks
  if cluster.task not in mesh_tasks or len(mesh_tasks) == 1:
    return "stages " + ", ".join(map(str, range(_STAGES)))
  names = layout.device_names({"stage": _STAGES}, mesh_tasks)
  prefix = f"{cluster.task.device_prefix}/"
  held = [str(k) for k, name in enumerate(names) if name.startswith(prefix)]
  return f"stage{'s' * (len(held) > 1)} {', '.join(held)}"


def draw(directory: pathlib.Path) -> list[str]:
  """Draws both kinds of clusters; returns the paths of the files.

  Args:
    directory: An existing folder.
  """
  clusters = [rows_of(jobs) for jobs in CLUSTERS]
  heights = [_panel_height(len(rows)) for rows in clusters]
  top = sum(heights) + _MARGIN * (len(heights) + 1)
  with sheet.opened(_WIDTH, top) as axes:
    for rows, height in zip(clusters, heights, strict=True):
      top -= _MARGIN
      _draw_panel(axes, rows, top)
      top -= height
    return sheet.save(axes, str(directory), "roles")


def _panel_height(num_rows: int) -> float:
  return _TITLE_HEIGHT + num_rows * (_BOX_HEIGHT + _ROW_GAP) + _DISK_HEIGHT


def _draw_panel(axes: Any, rows: Sequence[Sequence[Box]], top: float) -> None:
  """Draws a cluster from a height down."""
  is_between = len(rows) == 2
  sheet.text(axes, _MARGIN, top - 0.12, _TITLES[is_between], 9, weight="bold")
  y = top - _TITLE_HEIGHT
  for row in rows:
    for place, box in enumerate(row):
      _draw_box(axes, box, _left(place), y)
    y -= _BOX_HEIGHT + _ROW_GAP
  *servers, tasks_row = rows
  disk_top = y
  bottom = y + _ROW_GAP
  if servers:
    _draw_updates(axes, len(servers[0]), len(tasks_row) - 1, bottom)
    right = _left(len(servers[0]) - 1) + _BOX_WIDTH + 0.15
    # Beside the other tasks, from the servers down to the folder.
    x, middle = _WIDTH - _MARGIN - _BOX_WIDTH - _GAP / 2, bottom + 1.9
    points = [(right - 0.15, middle), (x, middle), (x, disk_top)]
    sheet.arrow(axes, points)
    sheet.text(axes, right + 0.1, middle + 0.12, "each writes its part", 6)
  else:
    _draw_sends(axes, len(tasks_row) - 1, bottom)
    for place in range(len(tasks_row) - 1):
      x = _left(place) + _BOX_WIDTH / 2
      sheet.arrow(axes, [(x, bottom), (x, disk_top)])
      middle = (bottom + disk_top) / 2
      sheet.text(axes, x + 0.08, middle, "writes its part", 6)
  x = _left(3) + _BOX_WIDTH / 2
  sheet.arrow(axes, [(x, disk_top), (x, bottom)])
  sheet.text(axes, x + 0.08, (bottom + disk_top) / 2, "reads", 6)
  size = (_WIDTH - 2 * _MARGIN, _DISK_HEIGHT)
  sheet.box(axes, (_MARGIN, disk_top - _DISK_HEIGHT), size, _DISK)
  label = "model_dir, on a file system that all tasks see: checkpoints"
  sheet.text(axes, _MARGIN + 0.1, disk_top - _DISK_HEIGHT / 2, label, 7)


def _left(place: int) -> float:
  return _MARGIN + place * (_BOX_WIDTH + _GAP)


def _draw_box(axes: Any, box: Box, left: float, top: float) -> None:
  size = (_BOX_WIDTH, _BOX_HEIGHT)
  sheet.box(axes, (left, top - _BOX_HEIGHT), size, box.color)
  sheet.text(axes, left + 0.1, top - 0.17, str(box.task), 9, weight="bold")
  for number, line in enumerate(box.lines):
    sheet.text(axes, left + 0.1, top - 0.4 - 0.17 * number, line, 7)


def _draw_sends(axes: Any, count: int, bottom: float) -> None:
  """Draws what neighbouring stages send each other."""
  for place in range(count - 1):
    begin, end = _left(place) + _BOX_WIDTH, _left(place + 1)
    for y, (a, b) in ((0.56, (begin, end)), (0.36, (end, begin))):
      sheet.arrow(axes, [(a, bottom + y), (b, bottom + y)])


def _draw_updates(axes: Any, servers: int, workers: int, bottom: float) -> None:
  """Draws who reads and updates variables."""
  low, high = bottom + _BOX_HEIGHT, bottom + _BOX_HEIGHT + _ROW_GAP
  for worker in range(workers):
    for server in range(servers):
      a = _left(worker) + _BOX_WIDTH * (server + 1) / (servers + 1)
      b = _left(server) + _BOX_WIDTH * (worker + 1) / (workers + 1)
      sheet.arrow(axes, [(a, low), (b, high)])


def main(arguments: Sequence[str] | None = None) -> None:
  """Draws the picture.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description="Draws roles of clusters.")
  parser.add_argument("--root", default=str(_ROOT), help="the repository")
  folder = pathlib.Path(parser.parse_args(arguments).root, _FOLDER)
  folder.mkdir(parents=True, exist_ok=True)
  _, drawn_twice = draw(folder)
  pathlib.Path(drawn_twice).unlink()  # Documents show the PNG.


if __name__ == "__main__":
  main()
