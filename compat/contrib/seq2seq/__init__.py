"""Names of tf.contrib.seq2seq: attention, and decoding step by step."""

from compat.contrib import absent
from compat.contrib.seq2seq.attention_wrapper import (
  AttentionWrapper,
  AttentionWrapperState,
  hardmax,
)
from compat.contrib.seq2seq.attention_wrapper import (
  compute_attention as _compute_attention,
)
from compat.contrib.seq2seq.basic_decoder import (
  BasicDecoder,
  BasicDecoderOutput,
)
from compat.contrib.seq2seq.beam_search import (
  BeamSearchDecoderOutput,
  BeamSearchDecoderState,
)
from compat.contrib.seq2seq.beam_search_decoder import (
  BeamSearchDecoder,
  FinalBeamSearchDecoderOutput,
)
from compat.contrib.seq2seq.beams import gather_tree, tile_batch
from compat.contrib.seq2seq.decoder import Decoder, dynamic_decode
from compat.contrib.seq2seq.embedding_helpers import (
  GreedyEmbeddingHelper,
  SampleEmbeddingHelper,
)
from compat.contrib.seq2seq.helper import CustomHelper, Helper, InferenceHelper
from compat.contrib.seq2seq.loss import sequence_loss
from compat.contrib.seq2seq.mechanisms import (
  BahdanauAttention,
  BahdanauMonotonicAttention,
  LuongAttention,
  LuongMonotonicAttention,
)
from compat.contrib.seq2seq.mechanisms import (
  BaseMonotonicAttentionMechanism as _BaseMonotonicAttentionMechanism,
)
from compat.contrib.seq2seq.mechanisms import bahdanau_score as _bahdanau_score
from compat.contrib.seq2seq.mechanisms import luong_score as _luong_score
from compat.contrib.seq2seq.memory import AttentionMechanism
from compat.contrib.seq2seq.memory import (
  BaseAttentionMechanism as _BaseAttentionMechanism,
)
from compat.contrib.seq2seq.memory import maybe_mask_score as _maybe_mask_score
from compat.contrib.seq2seq.memory import prepare_memory as _prepare_memory
from compat.contrib.seq2seq.monotonic import (
  monotonic_attention,
  safe_cumprod,
)
from compat.contrib.seq2seq.monotonic import (
  monotonic_probability_fn as _monotonic_probability_fn,
)
from compat.contrib.seq2seq.training_helpers import (
  ScheduledEmbeddingTrainingHelper,
  ScheduledOutputTrainingHelper,
  TrainingHelper,
)

__getattr__ = absent.getter(__name__)

# The underscored ones are for mechanisms of one's own, which derived from them
# and took them from 1.15's attention_wrapper.py.
__all__ = [
  "AttentionMechanism",
  "AttentionWrapper",
  "AttentionWrapperState",
  "BahdanauAttention",
  "BahdanauMonotonicAttention",
  "BasicDecoder",
  "BasicDecoderOutput",
  "BeamSearchDecoder",
  "BeamSearchDecoderOutput",
  "BeamSearchDecoderState",
  "CustomHelper",
  "Decoder",
  "FinalBeamSearchDecoderOutput",
  "GreedyEmbeddingHelper",
  "Helper",
  "InferenceHelper",
  "LuongAttention",
  "LuongMonotonicAttention",
  "SampleEmbeddingHelper",
  "ScheduledEmbeddingTrainingHelper",
  "ScheduledOutputTrainingHelper",
  "TrainingHelper",
  "_BaseAttentionMechanism",
  "_BaseMonotonicAttentionMechanism",
  "_bahdanau_score",
  "_compute_attention",
  "_luong_score",
  "_maybe_mask_score",
  "_monotonic_probability_fn",
  "_prepare_memory",
  "dynamic_decode",
  "gather_tree",
  "hardmax",
  "monotonic_attention",
  "safe_cumprod",
  "sequence_loss",
  "tile_batch",
]
