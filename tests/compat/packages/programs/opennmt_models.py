"""A small Transformer and a small LSTM model of OpenNMT-tf."""

import io
import os
import random

from tests.compat.packages import harness

import opennmt
import tensorflow as tf

_WORDS = ["word%02d" % number for number in range(20)]
_SPECIAL = ["<blank>", "<s>", "</s>"]


def transformer(directory):
  """Two layers of self-attention each, LazyAdam, a beam of three."""
  model = opennmt.models.Transformer(
    source_inputter=_words("source_vocabulary"),
    target_inputter=_words("target_vocabulary"),
    num_layers=2,
    num_units=8,
    num_heads=2,
    ffn_inner_dim=16,
  )
  params = {
    "average_loss_in_time": True,
    "label_smoothing": 0.1,
    "optimizer": "LazyAdamOptimizer",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.998},
    "learning_rate": 2.0,
    "decay_type": "noam_decay_v2",
    "decay_params": {"model_dim": 8, "warmup_steps": 400},
    "beam_width": 3,
  }
  return _model(directory, model, params)


def lstm(directory):
  """Two bidirectional layers, two with attention, greedy decoding.

  No dropout: which step of a loop draws first is left to chance.
  """
  cell = tf.nn.rnn_cell.LSTMCell
  model = opennmt.models.SequenceToSequence(
    source_inputter=_words("source_vocabulary"),
    target_inputter=_words("target_vocabulary"),
    encoder=opennmt.encoders.BidirectionalRNNEncoder(
      num_layers=2,
      num_units=8,
      reducer=opennmt.layers.ConcatReducer(),
      cell_class=cell,
      dropout=0.0,
    ),
    decoder=opennmt.decoders.AttentionalRNNDecoder(
      num_layers=2,
      num_units=8,
      bridge=opennmt.layers.CopyBridge(),
      attention_mechanism_class=tf.contrib.seq2seq.LuongAttention,
      cell_class=cell,
      dropout=0.0,
    ),
  )
  params = {
    "optimizer": "AdamOptimizer",
    "learning_rate": 0.01,
    "clip_gradients": 5.0,
  }
  return _model(directory, model, params)


def _words(vocabulary):
  return opennmt.inputters.WordEmbedder(
    vocabulary_file_key=vocabulary, embedding_size=8
  )


def _model(directory, model, params):
  files = _write_data(directory)
  model.initialize(files)
  modes = tf.estimator.ModeKeys

  def input_fn(mode, **kwargs):
    return opennmt.estimator.make_input_fn(
      model,
      mode,
      16,
      files["features"],
      bucket_width=4,
      num_threads=1,
      return_dataset=False,
      **kwargs,
    )

  estimator = tf.estimator.Estimator(
    model.model_fn(),
    config=harness.run_config(directory),
    params=dict(params, maximum_iterations=12),
  )
  predictions = ("tokens", "length", "log_probs", "index")
  return harness.Model(
    estimator,
    input_fn(modes.TRAIN, labels_file=files["labels"]),
    input_fn(modes.EVAL, labels_file=files["labels"]),
    predictions,
    input_fn(modes.PREDICT),
  )


def _write_data(directory):
  """Writes sentences, and the same reversed, to be translated into."""
  chosen = random.Random(1)
  sentences = [
    [chosen.choice(_WORDS) for _ in range(chosen.randint(3, 7))]
    for _ in range(64)
  ]
  contents = {
    "source_vocabulary": _SPECIAL + _WORDS,
    "target_vocabulary": _SPECIAL + _WORDS,
    "features": [" ".join(one) for one in sentences],
    "labels": [" ".join(reversed(one)) for one in sentences],
  }
  paths = {}
  for name, lines in contents.items():
    paths[name] = os.path.join(directory, name + ".txt")
    with io.open(paths[name], "w", encoding="utf-8") as stream:
      stream.write("".join(line + "\n" for line in lines))
  return paths
