"""The architecture of a transformer: sizes, checked before a graph exists."""

import dataclasses

import tensorflow as tf

POSITIONS = ("learned", "rotary")


@dataclasses.dataclass(frozen=True)
class Architecture:
  """The sizes of a transformer, and what it does about positions.

  Attributes:
    num_layers: How many layers it has, each of attention and a feed-forward
      network.
    hidden_size: The width of what layers pass on.
    num_heads: The heads of each layer's attention; they share `hidden_size`.
    sequence_length: The most tokens of a sequence.
    vocabulary_size: How many tokens there are.
    feed_forward_size: The width inside of a feed-forward network.
    positions: "learned" adds a vector for each position to the embeddings
      (Vaswani et al., 2017, arXiv:1706.03762); "rotary" turns queries and keys
      by an angle for each position (Su et al., 2021, arXiv:2104.09864).
    dropout: Dropout rate of the output of each sublayer in training.

  Raises:
    ValueError: If a size is below 1, heads do not share the hidden size, or
      the rest is out of range.
  """

  num_layers: int
  hidden_size: int
  num_heads: int
  sequence_length: int
  vocabulary_size: int
  feed_forward_size: int
  positions: str
  dropout: float

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if field.type is int and value < 1:
        raise ValueError(f"{field.name}={value} is too small; use at least 1")
    if self.hidden_size % self.num_heads:
      raise ValueError(
        f"num_heads={self.num_heads} does not divide "
        f"hidden_size={self.hidden_size}; each head needs as many units"
      )
    if self.positions not in POSITIONS:
      raise ValueError(
        f"positions={self.positions!r} is not known; use one of "
        f"{', '.join(POSITIONS)}"
      )
    if self.positions == "rotary" and self.head_size % 2:
      raise ValueError(
        f"positions='rotary' turns pairs of units, but a head has "
        f"{self.head_size} (hidden_size={self.hidden_size} over "
        f"num_heads={self.num_heads}); make it even"
      )
    if not 0 <= self.dropout < 1:
      raise ValueError(
        f"dropout={self.dropout} is out of range; use 0 or more, and less than "
        "1"
      )

  @property
  def head_size(self) -> int:
    """The units of a head."""
    return self.hidden_size // self.num_heads

  def check_length(self, ids: tf.Tensor, num_sampled: int = 0) -> None:
    """Raises if sequences are longer than they may be, where the graph knows.

    Args:
      ids: The numbers of tokens, [batch, length].
      num_sampled: How many tokens come after them.

    Raises:
      ValueError: If they are.
    """
    length = ids.shape[1]
    if length is None or length + num_sampled <= self.sequence_length:
      return
    further = f" and {num_sampled} that are sampled" if num_sampled else ""
    raise ValueError(
      f"sequences have {length} tokens{further}, but "
      f"sequence_length={self.sequence_length}; make it at least "
      f"{length + num_sampled}, or the sequences shorter"
    )
