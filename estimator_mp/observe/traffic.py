"""Traffic: tables of the tensors that devices send each other in a step."""

from collections.abc import Sequence

from estimator_mp import amounts
from estimator_mp.config.placement import Transfer

_ROUTE = ("from device", "to device")


def table(transfers: Sequence[Transfer], num_largest: int) -> str:
  """Returns the bytes between each two devices, and the largest tensors.

  Args:
    transfers: The tensors that were sent.
    num_largest: Number of tensors to list.
  """
  if not transfers:
    return "no tensor is sent between devices"
  of_route: dict[tuple[str, str], list[int]] = {}
  for sent in transfers:
    route = (sent.source, sent.destination)
    of_route.setdefault(route, []).append(sent.num_bytes)
  rows = [(*route, *_sums(sizes)) for route, sizes in sorted(of_route.items())]
  total = ("all", "", *_sums([sent.num_bytes for sent in transfers]))
  lines = amounts.columns([(*_ROUTE, "tensors", "bytes"), *rows, total], 2)
  by_size = sorted(transfers, key=lambda x: (-x.num_bytes, x.tensor))
  largest = [
    (x.tensor, x.source, x.destination, amounts.amount(x.num_bytes, "B"))
    for x in by_size[:num_largest]
  ]
  titles = ("largest tensors", *_ROUTE, "bytes")
  return "\n".join([*lines, "", *amounts.columns([titles, *largest], 3)])


def _sums(sizes: Sequence[int]) -> tuple[str, str]:
  """Returns the number of tensors and their bytes, for people."""
  return f"{len(sizes):,}", amounts.amount(sum(sizes), "B")
