"""transformer: a language model, or an encoder for classification.

The decoder is GPT-2's, the encoder BERT's, but for normalisation before each
sublayer and none in between (Radford et al., 2019; Devlin et al., 2018,
arXiv:1810.04805).
"""

from model_fns import sharded, training
from model_fns.transformers import family, feed_forward
from model_fns.transformers.architecture import Architecture
from model_fns.transformers.sampling import Sampling


def transformer(
  num_layers: int,
  hidden_size: int,
  num_heads: int,
  sequence_length: int,
  vocabulary_size: int,
  *,
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
  """Returns the model_fn of a transformer.

  A decoder's features are {"tokens": int [batch, length]}, its labels the
  tokens that come next, int [batch, length]. A feature "weights", float
  [batch, length], has the weight of each label. It evaluates to its
  `cross_entropy`, `perplexity` and `accuracy`. To predict, the tokens are
  prompts, of which a feature "length", int [batch], may say how long each is;
  it predicts the "logits" of the next token, and with a `sample_length` the
  "tokens" that it goes on with. They are sampled without a loop, step by step:
  so the graph grows with `sample_length`.

  An encoder's features are {"tokens": int [batch, length]}, perhaps with a
  "length", its labels classes, int [batch] or [batch, 1]. It predicts "logits",
  "probabilities" and the "class".

  Args:
    num_layers: Number of layers.
    hidden_size: The width of hidden states.
    num_heads: The heads of each layer's attention; they share `hidden_size`.
    sequence_length: Maximum number of tokens of a sequence, with sampled ones.
    vocabulary_size: Number of tokens of the vocabulary.
    kind: "decoder" for a language model, "encoder" for a classifier.
    num_classes: Number of classes; for an encoder only.
    feed_forward_size: The width inside of a feed-forward network; None for four
      times `hidden_size`.
    positions: "learned" vectors for positions, or "rotary" ones: queries and
      keys are turned.
    dropout: Dropout rate of the output of each sublayer in training.
    clip_norm: Maximum global norm of the gradients; None for no limit.
    sample_length: Number of tokens that a decoder samples in prediction.
    temperature: Divisor of the logits in sampling; 0 takes the likeliest token.
    top_k: Number of likeliest tokens that are sampled from; 0 for all.
    sample_seed: Seed of sampling; None for the graph's.
    config: The devices: a `ShardingConfig`, a mesh or its text; None for one
      device.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If sizes do not fit together, or the mesh cannot be made.
    TypeError: If the optimizer or the config is of another type.
  """
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
  return family.model_fn(
    architecture,
    lambda mode: feed_forward.DenseLayers(architecture.feed_forward_size),
    family.Task(kind, num_classes),
    Sampling(sample_length, temperature, top_k, sample_seed),
    family.Descent(optimizer, clip_norm),
    config,
  )
