"""moe: a transformer with experts, a mixture of which each token sees.

Every other layer has, instead of one feed-forward network, many of them, the
experts; a gate sends each token to one (Switch Transformers: Fedus et al.,
2021, arXiv:2101.03961) or two (GShard: Lepikhin et al., 2020,
arXiv:2006.16668). So a model has many more weights than a token is multiplied
by, and the experts are on different devices.
"""

from model_fns import sharded, training
from model_fns.transformers import experts, family
from model_fns.transformers.architecture import Architecture
from model_fns.transformers.gating import Gating
from model_fns.transformers.sampling import Sampling


def moe(
  num_layers: int,
  hidden_size: int,
  num_heads: int,
  sequence_length: int,
  vocabulary_size: int,
  num_experts: int,
  *,
  experts_per_token: int = 1,
  capacity_factor: float = 1.25,
  balance_weight: float = 0.01,
  experts_every: int = 2,
  kind: str = "decoder",
  num_classes: int | None = None,
  feed_forward_size: int | None = None,
  positions: str = "learned",
  dropout: float = 0.0,
  clip_norm: float | None = 1.0,
  sample_length: int = 0,
  temperature: float = 1.0,
  top_k: int = 0,
  sample_seed: int | None = None,
  config: sharded.Config = None,
  optimizer: training.OptimizerOrFn = family.default_optimizer,
) -> sharded.ModelFn:
  """Returns the model_fn of a transformer whose layers have experts.

  Features, labels, metrics and predictions are those of
  `model_fns.transformer`. In training and evaluation an expert has a capacity
  of tokens of a sequence; later tokens are dropped: their layer adds nothing to
  them. The fraction of dropped tokens is a summary and a metric,
  `dropped_tokens`; a token that has lost one of two experts counts half. Since
  sequences do not share that capacity, a sequence is computed as if it were
  alone, in micro-batches and replicas as in the whole batch. In prediction no
  token is dropped.

  The experts' kernels are variables [experts, width, units]. A `model` axis of
  the mesh splits them: by itself, or with the rule ("experts/(up|down)/", 0).

  Args:
    num_layers: Number of layers.
    hidden_size: The width of hidden states.
    num_heads: The heads of each layer's attention; they share `hidden_size`.
    sequence_length: Maximum number of tokens of a sequence, with sampled ones.
    vocabulary_size: Number of tokens of the vocabulary.
    num_experts: Number of experts of a layer, at least 2.
    experts_per_token: 1 (Switch) or 2 (GShard, but that it always asks the
      second one).
    capacity_factor: Capacity of an expert, as a multiple of its tokens under
      equal load.
    balance_weight: Weight of the loss that balances the load of experts; 0 for
      none.
    experts_every: The last of so many layers has experts: 1 for all layers.
    kind: As for `model_fns.transformer`, and so are the arguments below.
    num_classes: Number of classes; for an encoder only.
    feed_forward_size: The width inside of an expert, and of other layers'
      networks.
    positions: "learned" or "rotary".
    dropout: Dropout rate of the output of each sublayer in training.
    clip_norm: Maximum global norm of the gradients; None for no limit.
    sample_length: Number of tokens that a decoder samples in prediction.
    temperature: Divisor of the logits in sampling.
    top_k: Number of likeliest tokens that are sampled from.
    sample_seed: Seed of sampling.
    config: The devices.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If sizes do not fit together, no layer has experts, or the mesh
      cannot be made.
    TypeError: If the optimizer or the config is of another type.
  """
  if not 1 <= experts_every <= num_layers:
    raise ValueError(
      f"experts_every={experts_every} gives none of {num_layers} layers "
      f"experts; use 1 to {num_layers}"
    )
  architecture = Architecture(
    num_layers=num_layers,
    hidden_size=hidden_size,
    num_heads=num_heads,
    sequence_length=sequence_length,
    vocabulary_size=vocabulary_size,
    feed_forward_size=(
      4 * hidden_size if feed_forward_size is None else feed_forward_size
    ),
    positions=positions,
    dropout=dropout,
  )
  rules = Gating(
    num_experts, experts_per_token, capacity_factor, balance_weight
  )
  return family.model_fn(
    architecture,
    lambda mode: experts.Experts(
      architecture.feed_forward_size, rules, experts_every, mode
    ),
    family.Task(kind, num_classes),
    Sampling(sample_length, temperature, top_k, sample_seed),
    family.Descent(optimizer, clip_norm),
    config,
  )
