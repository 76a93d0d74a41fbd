"""Simulated results of published configurations.

Each table of benchmarks/published has a kind, and each kind a function here,
which returns a number for each row, in the unit of the table. A row is a
mapping, with the fields that are common to the rows of its table.
"""

import dataclasses
import functools
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import networks
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.machines import machine as machines
from estimator_mp.machines.machine import Link, Machine
from estimator_mp.pipeline import auto_schedule
from estimator_mp.simulator import step as step_lib
from estimator_mp.simulator import sums
from estimator_mp.simulator.step import SimulatedStep, StageWork, Step

if sys.version_info >= (3, 11):
  import tomllib
else:
  import tomli as tomllib

FOLDER = os.path.join(os.path.dirname(__file__), "published")
Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Fitted:
  """What no publication says, the same for all rows.

  A value that is fitted has the least mean error over the rows that are named.

  Attributes:
    tensor_cores: The part of the peak of tensor cores that products reach.
      Fitted on Megatron-LM's weak scaling.
    convolutions: The same of other cores, in layers of pipelines. Fitted, with
      the next one, on the images/s of torchgpipe's rows.
    winograd: How many times as fast convolutions of 3 x 3 are on GPUs, as
      Winograd's algorithm multiplies less.
    products: The part of the peak of plain cores that products of matrices
      reach in float32. Not fitted.
    memory: The part of a memory's bandwidth that ops reach. Not fitted.
    links: The part of a link's bandwidth that is reached. Not fitted.
    grpc: The part of a network's bandwidth that gRPC reaches. Fitted, with the
      next one, on all rows of data parallelism.
    jitter: The standard deviation of the time of a device's step, over that
      time; a data-parallel step ends with the slowest device.
    host_seconds: How long a step of DLRM takes beside its bytes and products.
      Fitted on NVIDIA's rows of DLRM.
  """

  tensor_cores: float = 0.7
  convolutions: float = 0.42
  winograd: float = 2.6
  products: float = 0.9
  memory: float = 0.8
  links: float = 0.8
  grpc: float = 0.3
  jitter: float = 0.05
  host_seconds: float = 3.5e-3


FITTED = Fitted()


@dataclasses.dataclass(frozen=True)
class Table:
  """A published table.

  Attributes:
    title: Its title.
    kind: The name of a function in `KINDS`.
    unit: What its numbers are.
    source: Where it is published.
    rows: Its rows.
  """

  title: str
  kind: str
  unit: str
  source: str
  rows: tuple[Row, ...]

  @property
  def published(self) -> list[float]:
    """The published number of each row."""
    return [row["published"] for row in self.rows]

  @property
  def has_basis(self) -> bool:
    """Whether all other rows are ratios to the first one."""
    return " over " in self.unit

  def simulated(self) -> list[float]:
    """Returns our number for each row."""
    found = KINDS[self.kind](self.rows)
    return [x / found[0] for x in found] if self.has_basis else found

  def errors(self, simulated: Sequence[float]) -> list[float]:
    """Returns the relative error of each row that is no basis."""
    pairs = [*zip(simulated, self.published, strict=True)][self.has_basis :]
    return [ours / theirs - 1 for ours, theirs in pairs]


def load() -> list[Table]:
  """Returns all published tables."""
  tables = []
  for name in sorted(os.listdir(FOLDER)):
    with open(os.path.join(FOLDER, name), "rb") as file:
      for values in tomllib.load(file)["tables"]:
        key, rows = values.pop("split_by", ""), values.pop("rows")
        common = values.pop("common", {})
        rows = [
          {**common, **row, **({key: part} if key else {}), "published": number}
          for row in rows
          for part, number in (
            row["published"].items() if key else [("", row["published"])]
          )
        ]
        tables.append(Table(**values, rows=tuple(rows)))
  return tables


def reached(name: str) -> Machine:
  """Returns a machine whose links have the bandwidth that is reached."""
  machine = machines.load(name)
  links = [
    dataclasses.replace(x, bandwidth=x.bandwidth * FITTED.links)
    for x in machine.links
  ]
  return dataclasses.replace(machine, links=tuple(links))


def _rate(machine: Machine, precision: str) -> float:
  """Returns the operations per second of products of matrices."""
  device = machine.device
  is_tensor = device.kind == "GPU" and (
    precision in ("float16", "tf32") and device.flops.get("float16", 0) > 1e14
  )
  name = "float32" if precision == "tf32" else precision
  part = FITTED.tensor_cores if is_tensor else FITTED.products
  return device.flops[name] * part


def _bytes(machine: Machine, num_bytes: float) -> float:
  """Returns the seconds that a device reads and writes so many bytes."""
  return num_bytes / (machine.device.memory_bandwidth * FITTED.memory)


# Pipelines of convolutional networks, and of GPipe's Transformer.


def pipelined_layers(rows: Sequence[Row]) -> list[float]:
  """Returns examples per second."""
  return [row["batch"] / _pipelined(row).seconds for row in rows]


def _pipelined(row: Row) -> SimulatedStep:
  machine = reached(row["machine"])
  layers = networks.make(row)
  stages, slices = row["stages"], row["micro_batches"]
  examples = row["batch"] / slices
  seconds = [_layer_seconds(x, machine, examples) for x in layers]
  sizes = row.get("balance") or _balance(
    [sum(op.flops for op in x.ops) for x in layers], stages
  )
  ends = [*itertools.accumulate(sizes)]
  work = []
  for size, end in zip(sizes, ends, strict=True):
    forward = sum(seconds[end - size : end])
    sent = examples * layers[end - 1].sent_bytes
    work.append(StageWork(forward, 2 * forward, sent_bytes=sent))
  schedule = orders.make_schedule("gpipe", stages, slices)
  return step_lib.simulate(
    Step(
      work,
      schedule,
      machine,
      {"stage": stages},
      recompute=row["recompute"],
      recomputes_early=True,
    )
  )


def _layer_seconds(
  layer: networks.Layer, machine: Machine, examples: float
) -> float:
  """Returns the time of a layer's forward pass."""
  rate = machine.device.flops["float32"] * FITTED.convolutions
  seconds = 0.0
  for op in layer.ops:
    gain = (
      FITTED.winograd if op.is_square and machine.device.kind == "GPU" else 1
    )
    seconds += machine.device.launch_seconds + max(
      examples * op.flops / (rate * gain),
      _bytes(machine, examples * op.num_bytes),
    )
  return seconds


def _balance(costs: Sequence[float], stages: int) -> list[int]:
  """Returns the sizes of stages whose greatest cost is least."""

  def sizes(most: float) -> list[int]:
    found, total = [0], 0.0
    for cost in costs:
      if total + cost > most and found[-1]:
        found.append(0)
        total = 0.0
      found[-1] += 1
      total += cost
    return found

  limits = {
    sum(costs[i:j]) for i, j in itertools.combinations(range(len(costs) + 1), 2)
  }
  found = next(
    x
    for x in map(sizes, sorted(x for x in limits if x >= max(costs)))
    if len(x) <= stages
  )
  while len(found) < stages:  # A stage of several layers is cut.
    i = max(range(len(found)), key=lambda i: found[i])
    found[i : i + 1] = [found[i] - 1, 1]
  return found


# Transformers on data, stage and model axes.


@dataclasses.dataclass(frozen=True)
class Transformer:
  """A training of a decoder-only Transformer.

  Attributes:
    machine: The devices.
    layers: Its layers.
    hidden: Their width.
    heads: Their heads.
    vocabulary: The size of the vocabulary.
    sequence: The tokens of an example.
    batch: The examples of a step.
    gpus: All devices.
    model: The size of the model axis.
    stages: The size of the stage axis.
    recompute: "full": layer by layer; "stages": all of a stage; "selective":
      attention, with the sequence split as well; "never".
    micro_batch: The examples of a slice.
    virtual_stages: The stages of each device.
    schedule: The order of slices.
    sends_parts: Whether a device sends its part of a tensor, and not all.
    buckets: In how many parts gradients are summed, during the backward pass.
  """

  machine: Machine
  layers: int
  hidden: int
  heads: int
  vocabulary: int
  sequence: int
  batch: int
  gpus: int
  model: int = 1
  stages: int = 1
  recompute: str = "full"
  micro_batch: int = 1
  virtual_stages: int = 1
  schedule: str = "1f1b"
  sends_parts: bool = True
  buckets: int = 1

  @property
  def data(self) -> int:
    """The size of the data axis."""
    return self.gpus // (self.model * self.stages)

  @property
  def slices(self) -> int:
    """The micro-batches of a replica."""
    return self.batch // (self.data * self.micro_batch)

  @property
  def flops(self) -> float:
    """The operations of a step by formula (3) of arXiv:2104.04473."""
    inner = 1 + self.sequence / (6 * self.hidden)
    inner += self.vocabulary / (16 * self.layers * self.hidden)
    return (
      96 * self.batch * self.sequence * self.layers * self.hidden**2 * inner
    )

  @property
  def parameters(self) -> float:
    """The parameters of all layers."""
    return 12 * self.layers * self.hidden**2 + self.vocabulary * self.hidden

  def work(self) -> list[StageWork]:
    """Returns the work of each stage."""
    m, t, h = self.machine, self.model, self.hidden
    count = self.stages * self.virtual_stages
    tokens = self.micro_batch * self.sequence
    rate = _rate(m, "float16")
    # What is left whole, by elements: norms, dropout, residuals; in float16.
    split = t if self.recompute == "selective" else 1
    whole = _bytes(m, 22 * tokens * h / split)
    parts = _bytes(m, 28 * tokens * h / t)
    scores = self.micro_batch * self.heads * self.sequence**2
    attention = 4 * tokens * self.sequence * h / t / rate
    attention += _bytes(m, 13 * scores / t)
    products = 24 * tokens * h * h / t / rate
    launches = 25 * m.device.launch_seconds
    summed = 2 * sums.seconds("nccl", 2 * tokens * h, range(t), m)
    forward = whole + parts + attention + products + launches + summed
    again = {"selective": attention, "never": 0.0}.get(self.recompute, forward)
    backward = 2 * (forward - summed) + summed + again
    weights = self.parameters / (t * self.stages * self.virtual_stages)
    kept = 2.0 if self.recompute in ("full", "stages") else 34 / t
    of_layers = self.layers / count
    if self.recompute == "never":
      kept += 5 * scores / (tokens * h) / t
    sent = 2 * tokens * h / (t if self.sends_parts else 1)
    work = StageWork(
      of_layers * forward,
      of_layers * backward,
      # Adam in float32 beside weights and gradients in float16.
      update=_bytes(m, 28 * weights),
      sent_bytes=sent,
      kept_bytes=of_layers * kept * tokens * h,
      weight_bytes=2 * weights,
      slot_bytes=12 * weights,
      gradient_bytes=2 * weights,
    )
    logits = 2 * tokens * h * self.vocabulary / t / rate
    logits += _bytes(m, 20 * tokens * self.vocabulary / t)
    last = dataclasses.replace(
      work, forward=work.forward + logits, backward=work.backward + 2 * logits
    )
    return [*[work] * (count - 1), last]

  def order(self) -> Schedule:
    """Returns the schedule."""
    if self.schedule == "one":  # A micro-batch after the other.
      one = orders.make_schedule("gpipe", self.stages, 1)
      return orders.repeat(one, self.slices)
    name, virtual = self.schedule, None
    if name == "1f1b" and self.virtual_stages > 1:
      name, virtual = "interleaved", self.virtual_stages
    return orders.make_schedule(name, self.stages, self.slices, virtual)

  def simulate(self) -> SimulatedStep:
    """Returns the step, with neighbours on the model axis side by side."""
    axes = {"stage": self.stages, "data": self.data, "model": self.model}
    return step_lib.simulate(
      Step(
        self.work(),
        self.order(),
        self.machine,
        axes,
        aggregation="nccl",
        num_buckets=self.buckets,
      )
    )

  def fits(self, step: SimulatedStep) -> bool:
    """Returns whether it fits into memory, with what is recomputed at once."""
    tokens = self.micro_batch * self.sequence
    layer = (34 * tokens * self.hidden) / self.model
    layer += 5 * self.micro_batch * self.heads * self.sequence**2 / self.model
    at_once = self.layers // self.stages if self.recompute == "stages" else 1
    # Logits and their gradients, of which one is in float32.
    logits = 10 * tokens * self.vocabulary / self.model
    most = step.memory_bytes + at_once * layer + logits
    return most <= self.machine.device.memory_bytes


def _transformer(row: Row) -> Transformer:
  names = {x.name for x in dataclasses.fields(Transformer)} - {"machine"}
  values = {name: value for name, value in row.items() if name in names}
  return Transformer(reached(row["machine"]), **values)


def fastest(model: Transformer, row: Row) -> tuple[Transformer, SimulatedStep]:
  """Returns the fastest of what a row leaves open, and its step."""
  found: list[tuple[Transformer, SimulatedStep]] = []
  per_replica = model.batch // model.data
  for micro_batch in (1, 2, 4, 8, 16):
    for virtual in (1, 2, 3, 4):
      tried = dataclasses.replace(
        model,
        micro_batch=row.get("micro_batch", micro_batch),
        virtual_stages=row.get("virtual_stages", virtual),
      )
      fits = not per_replica % tried.micro_batch and not (
        model.layers % (model.stages * tried.virtual_stages)
      )
      if tried.virtual_stages > 1:
        fits &= model.stages > 1 and not tried.slices % model.stages
      if fits and tried not in [x for x, _ in found]:
        step = tried.simulate()
        if tried.fits(step) or "micro_batch" in row:
          found.append((tried, step))
  return min(found, key=lambda x: x[1].seconds)


def transformer(rows: Sequence[Row]) -> list[float]:
  """Returns operations per second and device, or seconds."""
  found = []
  for row in rows:
    model, step = fastest(_transformer(row), row)
    is_rate = row["published"] > 1e6
    rate = model.flops / (step.seconds * model.gpus)
    found.append(rate if is_rate else step.seconds)
  return found


def interleaving(rows: Sequence[Row]) -> list[float]:
  """Returns how many times as fast a step is."""
  found = []
  for row in rows:
    model = _transformer({**row, "virtual_stages": 2})
    if row["what"] == "interleaved over 1f1b":
      plain = dataclasses.replace(model, virtual_stages=1)
    else:
      plain = dataclasses.replace(model, sends_parts=False)
    found.append(plain.simulate().seconds / model.simulate().seconds)
  return found


def pipedream(rows: Sequence[Row]) -> list[float]:
  """Returns ratios of throughputs, of the largest micro-batches that fit."""
  return [
    _rate_of(row, row["over"]) / _rate_of(row, row["base"]) for row in rows
  ]


def _rate_of(row: Row, name: str) -> float:
  """Returns the examples per second of a way to train."""
  model = _transformer(row)
  if name == "model":
    model = dataclasses.replace(model, stages=1, model=row["stages"])
  schedule = {"none": "one", "gpipe": "gpipe"}.get(name, "1f1b")
  rate, size = 0.0, 1
  while size <= model.batch // model.data:
    tried = dataclasses.replace(model, micro_batch=size, schedule=schedule)
    step = tried.simulate()
    if not tried.fits(step):
      break
    seconds = step.seconds
    if name == "2bw":  # There is no flush.
      seconds = max(x.compute_seconds + x.sum_seconds for x in step.devices)
    rate, size = model.batch / seconds, 2 * size
  return rate


# Zero bubble, from its measured times.


def _bubble(row: Row) -> tuple[float, float]:
  """Returns the time of the slowest device, and that of its work."""
  name, stages, slices = row["schedule"], row["stages"], row["micro_batches"]
  times = tuple(row[x] for x in ("forward", "backward", "weight"))
  virtual = row["virtual_stages"] if name == "interleaved" else 1
  longest = _longest(name, stages, slices, virtual, times, row["send"])
  return longest, slices * sum(times)


@functools.cache
def _longest(
  name: str,
  stages: int,
  slices: int,
  virtual: int,
  times: tuple[float, ...],
  send: float,
) -> float:
  """Returns the time of the slowest device, from its first cell to its last."""
  if name in ("zb_1p", "zb_2p"):
    schedule = orders.make_schedule(
      "auto",
      stages,
      slices,
      max_live_micro_batches=stages * int(name[3]),
    )
    forward, backward, weight = ((x,) * stages for x in times)
    sends = (send,) * (stages - 1)
    schedule = auto_schedule.fastest(
      schedule, auto_schedule.Costs(forward, backward, weight, sends)
    )
  else:
    names = {"zb_h1": "zb1p", "zb_h2": "zb2p"}
    schedule = orders.make_schedule(
      names.get(name, name), stages, slices, virtual if virtual > 1 else None
    )
  # A transfer takes its measured time, whatever its bytes.
  link = Link("cluster", 4096, 1.0, send)
  machine = dataclasses.replace(reached("a100"), links=(link,))
  work = StageWork(*(x / virtual for x in times))
  step = step_lib.simulate(
    Step([work] * stages * virtual, schedule, machine, {"stage": stages})
  )
  line = step.timeline
  return max(line.ends[x[-1]] - line.starts[x[0]] for x in schedule.rows)


def bubble_rate(rows: Sequence[Row]) -> list[float]:
  """Returns the parts of a step in which a device waits."""
  return [1 - work / longest for longest, work in map(_bubble, rows)]


def bubble_throughput(rows: Sequence[Row]) -> list[float]:
  """Returns examples per second and device."""
  return [
    row["micro_batches"]
    * row["micro_batch"]
    / (_bubble(row)[0] * row["stages"])
    for row in rows
  ]


# Data parallelism.

# Parameters of the networks, as torchvision has them.
_PARAMETERS = {
  "AlexNet": 61.1e6,
  "InceptionV3": 23.8e6,
  "ResNet-101": 44.5e6,
  "ResNet-152": 60.2e6,
  "ResNet-50": 25.6e6,
  "VGG16": 138.4e6,
}
# How gradients are summed, and over which links.
_UPDATES = {
  "ps_cpu": "ring",
  "ps_gpu": "ring",
  "replicated": "ring",
  "nccl": "nccl",
  "horovod": "nccl",
  "distributed": "hierarchical",
}


def data_parallel(rows: Sequence[Row]) -> list[float]:
  """Returns examples per second."""
  return [_parallel_rate(row, int(row["gpus"])) for row in rows]


def scaling_efficiency(rows: Sequence[Row]) -> list[float]:
  """Returns parts of linear scaling."""
  return [
    _parallel_rate(row, row["gpus"]) / (row["gpus"] * row["alone"])
    for row in rows
  ]


def _parallel_rate(row: Row, gpus: int) -> float:
  """Returns examples per second."""
  machine = reached(row["machine"])
  if row["update"] == "ps_cpu" and row["machine"] == "p100":
    machine = reached("p100_pcie")  # The parameters are beyond PCIe.
  host, *network = machine.links
  if "network_bandwidth" in row:
    shared = row["gpus_per_host"]
    host = dataclasses.replace(host, devices=shared)
    rate = row["network_bandwidth"] * FITTED.links
    network = [Link("cluster", 4096, rate, 10e-6, shared)]
  if row["update"] == "distributed":
    part = FITTED.grpc / FITTED.links
    network = [
      dataclasses.replace(x, bandwidth=x.bandwidth * part) for x in network
    ]
  machine = dataclasses.replace(machine, links=(host, *network))
  alone = row["batch_per_gpu"] / row["alone"]
  bytes_each = 2 if row.get("precision") == "float16" else 4
  work = StageWork(
    alone / 3,
    2 * alone / 3,
    gradient_bytes=bytes_each * _PARAMETERS[row["network"]],
  )
  step = step_lib.simulate(
    Step(
      [work],
      orders.make_schedule("gpipe", 1, 1),
      machine,
      {"data": gpus},
      aggregation=_UPDATES[row["update"]],
    )
  )
  examples: int = gpus * row["batch_per_gpu"]
  return examples / (step.seconds * _slowest(gpus))


def _slowest(count: int) -> float:
  """Returns the expected time of the slowest of some devices, over the mean."""
  if count == 1:
    return 1.0
  # Blom's approximation of the greatest of normally distributed numbers.
  quantile = (count - 0.375) / (count + 0.25)
  return 1 + FITTED.jitter * statistics.NormalDist().inv_cdf(quantile)


# Rankers with large tables.


@dataclasses.dataclass(frozen=True)
class Ranker:
  """DLRM (Naumov et al., 2019, arXiv:1906.00091): tables split, the rest not.

  Attributes:
    machine: The devices.
    gpus: How many there are.
    batch: The examples of a step.
    precision: Of products.
    tables: Lookups of an example.
    embedding_dim: The width of a row.
    numerical: The numerical features.
    bottom: Widths of the layers that read them.
    top: Widths of the layers after the interaction.
    table_bytes: The bytes of all tables.
  """

  machine: Machine
  gpus: int
  batch: int
  precision: str
  tables: int
  embedding_dim: int
  numerical: int
  bottom: Sequence[int]
  top: Sequence[int]
  table_bytes: float = 0.0

  def simulate(self) -> SimulatedStep:
    """Returns the step."""
    m, dim = self.machine, self.embedding_dim
    examples = self.batch / self.gpus
    each = 2 if self.precision == "float16" else 4
    vectors = self.tables + 1
    inputs = dim + vectors * (vectors - 1) // 2
    widths = [(self.numerical, *self.bottom), (inputs, *self.top)]
    pairs = [x for chain in widths for x in itertools.pairwise(chain)]
    weights = float(sum(x * y for x, y in pairs))
    flops = 2 * examples * (weights + vectors**2 * dim)
    # Biases and relus read and write; products wait for no memory.
    activations = sum(2 * y for _, y in pairs) + 3 * vectors * dim + inputs
    dense = flops / _rate(m, self.precision)
    dense += _bytes(m, each * examples * activations)
    rows = examples * self.tables * dim
    looked_up = _bytes(m, (4 + each) * rows)
    written = _bytes(m, (2 * each + 3 * 4) * rows)
    exchanged = 0.0
    if self.gpus > 1:
      link = m.link(0, self.gpus - 1)
      sent = each * rows * (self.gpus - 1) / self.gpus
      exchanged = link.seconds(sent, min(self.gpus, m.host_size))
      # A message for each other host.
      exchanged += (max(1, self.gpus // m.host_size) - 1) * link.latency
    work = StageWork(
      looked_up + exchanged + dense + FITTED.host_seconds / 3,
      2 * dense + exchanged + written + 2 * FITTED.host_seconds / 3,
      update=_bytes(m, 12 * weights),
      gradient_bytes=each * weights,
      weight_bytes=4 * weights + self.table_bytes / self.gpus,
    )
    return step_lib.simulate(
      Step(
        [work],
        orders.make_schedule("gpipe", 1, 1),
        m,
        {"data": self.gpus},
        aggregation="nccl",
      )
    )


def dlrm(rows: Sequence[Row]) -> list[float]:
  """Returns examples per second, or seconds."""
  found = []
  for row in rows:
    names = {x.name for x in dataclasses.fields(Ranker)} - {"machine"}
    values = {name: value for name, value in row.items() if name in names}
    seconds = Ranker(reached(row["machine"]), **values).simulate().seconds
    is_rate = row["published"] > 1
    found.append(row["batch"] / seconds if is_rate else seconds)
  return found


KINDS: Mapping[str, Callable[[Sequence[Row]], list[float]]] = {
  x.__name__: x
  for x in (
    bubble_rate,
    bubble_throughput,
    data_parallel,
    dlrm,
    interleaving,
    pipedream,
    pipelined_layers,
    scaling_efficiency,
    transformer,
  )
}
