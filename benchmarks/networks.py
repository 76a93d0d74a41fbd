"""What the layers of published networks compute, read, write and send.

All figures are of one example, in float32. Products are two operations for each
multiply and add; a layer that is no product takes the time of its bytes.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Op:
  """An op of the forward pass.

  Attributes:
    flops: Its floating-point operations.
    num_bytes: The bytes that it reads and writes.
    is_square: Whether it is a convolution of 3 x 3 without strides.
  """

  flops: float
  num_bytes: float
  is_square: bool = False


@dataclasses.dataclass(frozen=True)
class Layer:
  """A layer, the unit of which stages consist.

  Attributes:
    ops: Its ops.
    sent_bytes: What the next layer reads.
  """

  ops: tuple[Op, ...]
  sent_bytes: float


def _product(
  read: int, written: int, kernel: int, pixels: int, stride: int = 1
) -> Op:
  """Returns a convolution, from and to so many channels."""
  return Op(
    2.0 * read * written * kernel * pixels,
    _BYTES * pixels * (read * stride**2 + written),
    kernel == 9 and stride == 1,
  )


def _pass(channels: int, pixels: int, times: int = 2) -> Op:
  """Returns an op that reads and writes a map so many times in all."""
  return Op(0.0, _BYTES * times * channels * pixels)


def _normalized(
  read: int, written: int, kernel: int, pixels: int, stride: int = 1
) -> list[Op]:
  """Returns relu, convolution and batch normalization, which reads twice."""
  return [
    _pass(read, pixels * stride**2),
    _product(read, written, kernel, pixels, stride),
    _pass(written, pixels, 3),
  ]


def _factorized(channels: int, pixels: int, stride: int) -> list[Op]:
  narrow = channels // 4
  return [
    *_normalized(channels, narrow, 1, pixels * stride**2),
    *_normalized(narrow, narrow, 7, pixels * stride, stride),
    *_normalized(narrow, narrow, 7, pixels),
    *_normalized(narrow, channels, 1, pixels),
  ]


def _bottleneck(channels: int, pixels: int, stride: int) -> list[Op]:
  narrow = channels // 4
  return [
    *_normalized(channels, narrow, 1, pixels * stride**2),
    *_normalized(narrow, narrow, 9, pixels, stride),
    *_normalized(narrow, channels, 1, pixels),
  ]


def _pool(channels: int, pixels: int, stride: int) -> list[Op]:
  return [Op(0.0, _BYTES * channels * pixels * (stride**2 + 1))]


def _plain(channels: int, pixels: int, stride: int) -> list[Op]:
  return _normalized(channels, channels, 1, pixels, stride)


def _skip(channels: int, pixels: int, stride: int) -> list[Op]:
  return _plain(channels, pixels, stride) if stride > 1 else []


_CellOp = tuple[int, Callable[[int, int, int], list[Op]]]
# The genotype of AmoebaNet-D (Real et al., 2018, arXiv:1802.01548): the state
# that an operation reads, and which one it is.
_NORMAL: Sequence[_CellOp] = (
  (1, _plain),
  (1, _pool),
  (1, _skip),
  (0, _factorized),
  (0, _plain),
  (0, _factorized),
  (2, _pool),
  (2, _skip),
  (1, _pool),
  (5, _plain),
)
_REDUCTION: Sequence[_CellOp] = (
  (0, _pool),
  (0, _pool),
  (2, _skip),
  (1, _bottleneck),
  (2, _factorized),
  (2, _pool),
  (3, _skip),
  (1, _pool),
  (2, _pool),
  (3, _plain),
)


@functools.cache
def amoebanet(filters: int, normal_cells: int = 18) -> tuple[Layer, ...]:
  """Returns AmoebaNet-D (L, D) on images of 224 x 224 pixels."""
  channels, pixels = filters // 4, 112**2
  before = last = channels
  was_reduction = False
  stem = [_pass(3, 224**2), _product(3, channels, 9, pixels, 2)]
  layers = [Layer((*stem, _pass(channels, pixels, 3)), _map(channels, pixels))]
  third = ["normal"] * (normal_cells // 3)
  reductions = ["reduction"]
  for kind in [
    *reductions * 2,
    *third,
    *reductions,
    *third,
    *reductions,
    *third,
  ]:
    stride = 2 if kind == "reduction" else 1
    channels *= stride
    into, out = pixels, pixels // stride**2
    ops = _normalized(last, channels, 1, into)
    if was_reduction or before != channels:
      ops += _normalized(before, channels, 1, into, 2 if was_reduction else 1)
    cell = _REDUCTION if kind == "reduction" else _NORMAL
    for state, make in cell:
      ops += make(channels, out, stride if state < 2 else 1)
    parts = 3 if kind == "reduction" else 4
    ops += [_pass(channels, out, 3)] * 5 + [_pass(parts * channels, out)]
    sent = _map(parts * channels, out) + _map(last, into)
    layers.append(Layer(tuple(ops), sent))
    before, last, pixels = last, parts * channels, out
    was_reduction = kind == "reduction"
  classify = (_pass(last, pixels, 1), _product(last, 1000, 1, 1))
  return (*layers, Layer(classify, _map(1000, 1)))


@functools.cache
def resnet101() -> tuple[Layer, ...]:
  """Returns ResNet-101, with a layer for each module of torchgpipe's."""
  pixels = 112**2
  layers = [
    Layer((_product(3, 64, 49, pixels, 2),), _map(64, pixels)),
    Layer((_pass(64, pixels, 3),), _map(64, pixels)),
    Layer((_pass(64, pixels),), _map(64, pixels)),
    Layer(tuple(_pool(64, 56**2, 2)), _map(64, 56**2)),
  ]
  last, size = 64, 56
  for group, blocks in enumerate((3, 4, 23, 3)):
    narrow = 64 * 2**group
    for block in range(blocks):
      stride = 2 if group and not block else 1
      read, written = size**2, (size // stride) ** 2
      size //= stride
      wide = 4 * narrow
      shortcut = [_pass(wide, written, 3)]
      if last != wide:
        shortcut += [
          _product(last, wide, 1, written, stride),
          _pass(wide, written, 3),
        ]
      # The block's input is held for its end, where it is added.
      held = _map(last, read)
      layers += [
        Layer((), held),
        Layer((_product(last, narrow, 1, read),), held + _map(narrow, read)),
        Layer((_pass(narrow, read, 3),), held + _map(narrow, read)),
        Layer((_pass(narrow, read),), held + _map(narrow, read)),
        Layer(
          (_product(narrow, narrow, 9, written, stride),),
          held + _map(narrow, written),
        ),
        Layer((_pass(narrow, written, 3),), held + _map(narrow, written)),
        Layer((_pass(narrow, written),), held + _map(narrow, written)),
        Layer(
          (_product(narrow, wide, 1, written),), held + _map(wide, written)
        ),
        Layer((_pass(wide, written, 3),), held + _map(wide, written)),
        Layer(tuple(shortcut), _map(wide, written)),
        Layer((_pass(wide, written),), _map(wide, written)),
      ]
      last = wide
  return (
    *layers,
    Layer((_pass(last, size**2, 1),), _map(last, 1)),
    Layer((), _map(last, 1)),
    Layer((_product(last, 1000, 1, 1),), _map(1000, 1)),
  )


@functools.cache
def unet(
  depth: int = 5, convolutions: int = 5, base: int = 64
) -> tuple[Layer, ...]:
  """Returns torchgpipe's U-Net (B, C) on images of 192 x 192 pixels."""
  layers: list[Layer] = []

  def stacked(read: int, middle: int, written: int, pixels: int) -> None:
    widths = [read, *[middle] * (convolutions - 1), written]
    for before, after in itertools.pairwise(widths):
      sent = _map(after, pixels)
      layers.append(Layer((_product(before, after, 9, pixels),), sent))
      layers.append(Layer((_pass(after, pixels),), sent))
      layers.append(Layer((_pass(after, pixels, 3),), sent))
      layers.append(Layer((_pass(after, pixels),), sent))

  last = 3
  for level in range(depth):
    width, pixels = base * 2**level, (192 >> level) ** 2
    stacked(last, width, width, pixels)
    layers.append(Layer((), _map(width, pixels)))
    layers.append(
      Layer(tuple(_pool(width, pixels // 4, 2)), _map(width, pixels // 4))
    )
    last = width
  stacked(last, 2 * last, last, (192 >> depth) ** 2)
  for level in reversed(range(depth)):
    width, pixels = base * 2**level, (192 >> level) ** 2
    layers.append(Layer((_pass(width, pixels),), _map(width, pixels)))
    layers.append(Layer((_pass(2 * width, pixels),), _map(2 * width, pixels)))
    stacked(2 * width, width // 2, width // 2, pixels)
  layers.append(Layer((_product(base // 2, 1, 1, 192**2),), _map(1, 192**2)))
  return tuple(layers)


def transformer(
  layers: int, hidden: int, ff: int, heads: int, vocabulary: int, sequence: int
) -> tuple[Layer, ...]:
  """Returns a decoder of alike layers, between an embedding and a softmax."""
  scores = heads * sequence
  block = (
    *[_product(hidden, hidden, 1, sequence)] * 4,
    *[_product(sequence, hidden, 1, sequence)] * 2,
    *[_pass(scores, sequence, 2)] * 2,
    _product(hidden, ff, 1, sequence),
    _pass(ff, sequence),
    _product(ff, hidden, 1, sequence),
    *[_pass(hidden, sequence, 3)] * 4,
  )
  sent = _map(hidden, sequence)
  softmax = (
    _product(hidden, vocabulary, 1, sequence),
    _pass(vocabulary, sequence, 3),
  )
  return (
    Layer((_pass(hidden, sequence),), sent),
    *[Layer(block, sent)] * layers,
    Layer(softmax, 0.0),
  )


def _map(channels: int, pixels: int) -> float:
  """Returns the bytes of a map."""
  return float(_BYTES * channels * pixels)


def make(row: Mapping[str, Any]) -> tuple[Layer, ...]:
  """Returns the network of a row of published results."""
  name = row["network"]
  if name == "transformer":
    keys = ("layers", "hidden", "ff", "heads", "vocabulary", "sequence")
    return transformer(*(row[x] for x in keys))
  if name == "amoebanet":
    return amoebanet(row["filters"])
  return {"resnet101": resnet101, "unet": unet}[name]()
