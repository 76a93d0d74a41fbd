"""How long it takes to sum gradients over replicas.

The times are those of the alpha-beta model: a message takes the latency of its
link, and its bytes the bandwidth (Thakur et al., 2005,
doi:10.1177/1094342005051521).
"""

import math
from collections.abc import Sequence

from estimator_mp.config.algorithms import ALGORITHMS, Case
from estimator_mp.machines.machine import Machine


def choose(num_bytes: float, devices: Sequence[int], machine: Machine) -> str:
  """Returns the algorithm that aggregation="auto" would take.

  Args:
    num_bytes: The bytes of one replica.
    devices: The numbers of the devices.
    machine: The machine.
  """
  is_on_gpus = machine.device.kind == "GPU"
  hosts = {device // machine.host_size for device in devices}
  case = Case(round(num_bytes), len(devices), len(hosts), is_on_gpus)
  return [
    name
    for name, algorithm in ALGORITHMS.items()
    if algorithm.suits(case)
    and (algorithm.device_type is None or is_on_gpus)
    and not (algorithm.needs_one_task and len(hosts) > 1)
  ][-1]


def seconds(
  algorithm: str,
  num_bytes: float,
  devices: Sequence[int],
  machine: Machine,
  senders: int = 1,
) -> float:
  """Returns how long an all-reduce takes.

  Args:
    algorithm: One of `ALGORITHMS`; "auto" is `choose`.
    num_bytes: The bytes of one replica.
    devices: The numbers of the devices, in order.
    machine: The machine.
    senders: How many sums go through the links of a host at the same time.
  """
  count = len(devices)
  if count == 1 or not num_bytes:
    return 0.0
  if algorithm == "auto":
    algorithm = choose(num_bytes, devices, machine)
  link = machine.link(devices[0], devices[-1])
  add = 3 * num_bytes / machine.device.memory_bandwidth
  if algorithm == "copy":
    once = link.seconds((count - 1) * num_bytes, senders)
    return 2 * once + (count - 1) * add
  if algorithm == "tree":
    levels = math.ceil(math.log2(count))
    return levels * (2 * link.seconds(num_bytes, senders) + add)
  if algorithm == "hierarchical":
    of_host: dict[int, list[int]] = {}
    for device in devices:
      of_host.setdefault(device // machine.host_size, []).append(device)
    groups = [*of_host.values()]
    inside = max(seconds("copy", num_bytes, group, machine) for group in groups)
    leaders = [group[0] for group in groups]
    return inside + seconds("ring", num_bytes, leaders, machine)
  steps = 2 * (count - 1) * link.seconds(num_bytes / count, senders)
  if algorithm == "nccl":
    steps = _nccl(num_bytes, devices, machine, senders)
  return steps + (count - 1) / count * add


def _nccl(
  num_bytes: float, devices: Sequence[int], machine: Machine, senders: int
) -> float:
  """Returns how long NCCL sends: in rings, or in two trees if that is faster.

  They go through the network cards of all members of a host. Two trees have the
  bandwidth of rings and fewer steps (Sanders et al., 2009,
  doi:10.1016/j.parco.2009.09.001).
  """
  count = len(devices)
  link = machine.link(devices[0], devices[-1])
  of_host = count / len({device // machine.host_size for device in devices})
  most = machine.links[0].bandwidth / link.bandwidth
  lanes = min(max(1.0, of_host / link.shared), max(1.0, most))
  ring = link.seconds(num_bytes / count / lanes, senders)
  half = link.seconds(num_bytes / 2 / lanes, senders) - link.latency
  levels = math.ceil(math.log2(count))
  trees = 2 * levels * link.latency + 4 * half
  return min(2 * (count - 1) * ring, trees)
