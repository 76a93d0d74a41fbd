"""Names of tf.contrib.crf: linear-chain conditional random fields.

Lafferty, McCallum and Pereira, "Conditional Random Fields: Probabilistic Models
for Segmenting and Labeling Sequence Data", 2001.
"""

from compat.contrib import absent
from compat.contrib.crf.cells import (
  CrfDecodeBackwardRnnCell,
  CrfDecodeForwardRnnCell,
  CrfForwardRnnCell,
)
from compat.contrib.crf.decoding import crf_decode, viterbi_decode
from compat.contrib.crf.likelihood import crf_log_likelihood
from compat.contrib.crf.scores import (
  crf_binary_score,
  crf_log_norm,
  crf_multitag_sequence_score,
  crf_sequence_score,
  crf_unary_score,
)

__getattr__ = absent.getter(__name__)

__all__ = [
  "CrfDecodeBackwardRnnCell",
  "CrfDecodeForwardRnnCell",
  "CrfForwardRnnCell",
  "crf_binary_score",
  "crf_decode",
  "crf_log_likelihood",
  "crf_log_norm",
  "crf_multitag_sequence_score",
  "crf_sequence_score",
  "crf_unary_score",
  "viterbi_decode",
]
