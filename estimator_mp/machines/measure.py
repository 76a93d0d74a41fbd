"""Measures this machine: its devices, and the links between them.

Each figure is the time of a graph that does one thing many times, in a session
with TensorFlow's own number of threads. So a large product alone has all cores
of a CPU, as in a model.
"""

import datetime
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from estimator_mp.machines.machine import Device, Link, Machine

import tensorflow as tf

v1 = tf.compat.v1
_DTYPES = ("float32", "float64", "bfloat16")
_SIZES = {"CPU": (64, 128, 256, 512, 1024, 2048), "GPU": (512, 2048, 8192)}
# The floating-point operations of a graph of products, and the most of these.
_WORK = {"CPU": 4e9, "GPU": 4e12}
_MOST_PRODUCTS = 100
# The best round has the least of other programs' load.
_ROUNDS = 3
# A product of a layer's gradient, which reads the kernel by its columns.
_ROWS, _WIDTH, _COUNT = 64, 1024, 20
_MEMORY_BYTES = 2**28
_NUM_OPS = 1000
# What is sent is about as large as the activations of a micro-batch.
_SENT_BYTES = 2**24
_NUM_SENDS = 10
# Any number of virtual devices fits a process, and of processes a machine.
_IN_PROCESS = 64
_MOST_DEVICES = 4096


def measure(seconds: float) -> tuple[Machine, dict[int, dict[str, float]]]:
  """Measures this machine.

  Args:
    seconds: How long each figure is measured for; of a CPU, there are 30.

  Returns:
    The machine, and the floating-point operations per second of a device, in
    products of square matrices: by their size, then by their dtype, the last
    ones while all devices compute.
  """
  with v1.Session(config=_config()) as session:
    found = session.list_devices()
  gpus = [x for x in found if x.device_type == "GPU"]
  used = gpus or [x for x in found if x.device_type == "CPU"]
  kind, places = used[0].device_type, [x.name for x in used]
  memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

  def product_rate(size: int, dtype: str, places: Sequence[str]) -> float:
    flops = 2.0 * size**3
    count = min(max(1, round(_WORK[kind] / flops)), _MOST_PRODUCTS)
    shape = (size, size, dtype, places, count)
    return _rounded(
      count * flops / _seconds(seconds / _ROUNDS, _products, *shape)
    )

  on_all, place = f"float32 on {len(places)}", places[0]
  columns = {x: (x, [place]) for x in _DTYPES} | {on_all: ("float32", places)}
  rates = {size: dict.fromkeys(columns, 0.0) for size in _SIZES[kind]}
  for _ in range(_ROUNDS):
    for size, best in rates.items():
      for name, column in columns.items():
        best[name] = max(best[name], product_rate(size, *column))
  flops = dict(rates[_SIZES[kind][-1]])
  del flops[on_all]
  shape = (_ROWS, _WIDTH, "float32", [place], _COUNT)
  by_rows, by_columns = (
    _seconds(seconds, _products, *shape, x) for x in (False, True)
  )
  longer = by_columns - by_rows
  strided = _rounded(_COUNT * _WIDTH**2 * 4 / longer) if longer > 0 else None
  device = Device(
    kind,
    flops,
    gpus[0].memory_limit_bytes if gpus else memory,
    _rounded(3 * _MEMORY_BYTES / _seconds(seconds, _sum, place)),
    _rounded(_seconds(seconds, _small_ops, place) / _NUM_OPS),
    strided_bandwidth=strided,
    cores=0 if gpus else os.cpu_count() or 1,
  )
  links = []
  if len(places) > 1:
    count = len(gpus) or _IN_PROCESS
    links.append(_link("process", count, seconds, places[:2]))
  # A server has no end; this process's two are as two processes to each other.
  servers = [v1.train.Server.create_local_server().target for _ in "ab"]
  tasks = {"worker": [x.removeprefix("grpc://") for x in servers]}
  cluster = tf.train.ClusterSpec(tasks).as_cluster_def()
  pair = [f"/job:worker/task:{i}/cpu:0" for i in range(2)]
  links.append(_link("host", _MOST_DEVICES, seconds, pair, servers[0], cluster))
  version = f"TensorFlow {tf.__version__}, {datetime.date.today()}"
  source = f"estimator-mp measure, {version}"
  name = f"{len(places)} {kind} device(s)"
  return Machine(name, device, tuple(links), source), rates


def _rounded(value: float) -> float:
  return float(f"{value:.3g}")


def _config(cluster: Any = None) -> tf.compat.v1.ConfigProto:
  """Returns a session's settings: with a CPU device for each core."""
  cores = len(os.sched_getaffinity(0))
  config = v1.ConfigProto(
    device_count={"CPU": max(2, cores)}, cluster_def=cluster
  )
  # Nobody reads the results; Grappler would leave out what makes them.
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  return config


def _seconds(
  seconds: float,
  build: Callable[..., tf.Operation],
  *arguments: Any,
  target: str = "",
  cluster: Any = None,
) -> float:
  """Returns the time of an op, which is run for some seconds.

  It is the first quartile, without what other programs' load adds to some runs.
  """
  with (
    tf.Graph().as_default(),
    v1.Session(target, config=_config(cluster)) as session,
  ):
    op = build(*arguments)
    session.run(v1.global_variables_initializer())
    run = session.make_callable(op)
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
      start = time.perf_counter()
      run()
      times.append(time.perf_counter() - start)
  return sorted(times)[len(times) // 4]


def _values(shape: Sequence[int], dtype: str = "float32") -> tf.Variable:
  """Returns a variable of numbers whose products are as large as they are."""
  normal = v1.random_normal_initializer(stddev=shape[-1] ** -0.5)
  name = f"values_{len(v1.global_variables())}"
  return v1.get_variable(name, shape, dtype, normal)


def _products(
  rows: int,
  width: int,
  dtype: str,
  places: Sequence[str],
  count: int,
  by_columns: bool = False,
) -> tf.Operation:
  """Returns an op after chains of products, one on each device."""
  ends = []
  for place in places:
    with tf.device(place):
      product = _values([rows, width], dtype).read_value()
      factor = _values([width, width], dtype).read_value()
      for _ in range(count):
        product = tf.matmul(product, factor, transpose_b=by_columns)
      ends.append(product.op)
  return tf.group(ends)


def _sum(place: str) -> tf.Operation:
  """Returns an op that reads two large variables, and writes one."""
  with tf.device(place):
    total, part = (_values([_MEMORY_BYTES // 4]) for _ in "ab")
    return tf.group(total.assign_add(part.read_value(), read_value=False))


def _small_ops(place: str) -> tf.Operation:
  """Returns an op after a chain of ops that do next to nothing."""
  with tf.device(place):
    end = _values([1]).read_value()
    for _ in range(_NUM_OPS):
      end -= end
    return end.op


def _sends(pair: Sequence[str], num_bytes: int) -> tf.Operation:
  """Returns an op after a tensor has gone back and forth."""
  with tf.device(pair[0]):
    tensor = _values([num_bytes // 4]).read_value()
  for i in range(_NUM_SENDS):
    with tf.device(pair[(i + 1) % 2]):
      tensor = tf.identity(tensor)
  return tensor.op


def _link(
  level: str,
  devices: int,
  seconds: float,
  pair: Sequence[str],
  target: str = "",
  cluster: Any = None,
) -> Link:
  """Returns the link between two devices."""
  latency, large = (
    _seconds(seconds, _sends, pair, x, target=target, cluster=cluster)
    / _NUM_SENDS
    for x in (4, _SENT_BYTES)
  )
  # A device of the same process is just handed the tensor.
  sending = max(large - latency, latency)
  return Link(
    level, devices, _rounded(_SENT_BYTES / sending), _rounded(latency)
  )
