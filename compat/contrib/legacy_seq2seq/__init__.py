"""Names of tf.contrib.legacy_seq2seq: models of unrolled steps, in buckets."""

from compat.contrib import absent
from compat.contrib.legacy_seq2seq.attention import (
  attention_decoder,
  embedding_attention_decoder,
)
from compat.contrib.legacy_seq2seq.decoders import (
  argmax_and_embed as _extract_argmax_and_embed,
)
from compat.contrib.legacy_seq2seq.decoders import (
  embedding_rnn_decoder,
  rnn_decoder,
)
from compat.contrib.legacy_seq2seq.losses import (
  model_with_buckets,
  sequence_loss,
  sequence_loss_by_example,
)
from compat.contrib.legacy_seq2seq.models import (
  basic_rnn_seq2seq,
  embedding_attention_seq2seq,
  embedding_rnn_seq2seq,
  embedding_tied_rnn_seq2seq,
  one2many_rnn_seq2seq,
  tied_rnn_seq2seq,
)

__getattr__ = absent.getter(__name__)

# The underscored one is for loops of one's own, which took it from 1.15's file.
__all__ = [
  "_extract_argmax_and_embed",
  "attention_decoder",
  "basic_rnn_seq2seq",
  "embedding_attention_decoder",
  "embedding_attention_seq2seq",
  "embedding_rnn_decoder",
  "embedding_rnn_seq2seq",
  "embedding_tied_rnn_seq2seq",
  "model_with_buckets",
  "one2many_rnn_seq2seq",
  "rnn_decoder",
  "sequence_loss",
  "sequence_loss_by_example",
  "tied_rnn_seq2seq",
]
