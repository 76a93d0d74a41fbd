"""What tf.contrib refuses: the error has the value that is wrong."""

import compat

compat.install(contrib=True)

import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.contrib import (  # noqa: E402
  cudnn_rnn,
  distribute,
  estimator,
  framework,
  image,
  integrate,
  kernel_methods,
  layers,
  learn,
  legacy_seq2seq,
  lookup,
  opt,
  rnn,
  seq2seq,
  sparsemax,
  training,
)

v1 = tf.compat.v1


def _parse(text):
  hparams = training.HParams(
    depth=3, rate=0.5, name="a", on=True, sizes=[1, 2], none=None
  )
  return hparams.parse(text)


def _zeros(*shape, name=None):
  return tf.zeros(shape, name=name)


def _words():
  return layers.sparse_column_with_hash_bucket("w", 5)


def _number(**arguments):
  return layers.real_valued_column("a", **arguments)


def _weighted_sum(columns):
  features = {"w": tf.constant([["a"]])}
  return layers.weighted_sum_from_feature_columns(features, columns, 1)


def _hinge(logits, labels=(0, 1), **arguments):
  return kernel_methods.sparse_multiclass_hinge_loss(
    tf.convert_to_tensor(labels), logits, **arguments
  )


def _gru():
  return v1.nn.rnn_cell.GRUCell(4)


def _attention(units=4):
  return seq2seq.LuongAttention(units, _zeros(3, 5, 4))


def _wrapper(**arguments):
  return seq2seq.AttentionWrapper(_gru(), _attention(), **arguments)


def _decoder(helper=None, cell=None):
  helper = helper or seq2seq.TrainingHelper(_zeros(3, 5, 4), [5, 5, 5])
  return seq2seq.BasicDecoder(cell or _gru(), helper, _zeros(3, 4))


def _beams():
  return seq2seq.BeamSearchDecoder(
    _gru(), _zeros(9, 4), [1, 1, 1], 0, _zeros(3, 4), 2
  )


def _lstm(*arguments, **named):
  return cudnn_rnn.CudnnLSTM(2, 3, *arguments, **named)


def _ops_of(head, labels=((0.0,), (1.0,)), **logits):
  features = {"a": tf.constant([[1.0], [2.0]])}
  return head.create_model_fn_ops(features, "eval", labels, **logits)


def _deep(**arguments):
  v1.train.create_global_step()
  model = learn.DNNClassifier([2], [_number()], **arguments)
  features = {"a": tf.constant([[1.0]])}
  return model.model_fn(features, tf.constant([[1]]), "train", None)


_VALUE_ERRORS = {
  # Hyperparameters.
  "no hyperparameter 'width'; .*'depth', 'name'": lambda: _parse("width=1"),
  "'depth' is of type int; 'x' is not": lambda: _parse("depth=x"),
  "'on' is of type bool; 'yes' is not": lambda: _parse("on=yes"),
  "'sizes' is a list; 3 is not": lambda: _parse("sizes=3"),
  "'sizes' is a list; {0: 3} is not": lambda: _parse("sizes[0]=3"),
  "'depth' is set more than once": lambda: _parse("depth=3,depth=3"),
  "cannot read 'depth'; write name=value": lambda: _parse("depth"),
  "'depth' exists": lambda: training.HParams(depth=3).add_hparam("depth", 5),
  # Columns.
  "column w is sparse; .*one_hot_column": lambda: (
    layers.input_from_feature_columns({"w": tf.constant([["a"]])}, [_words()])
  ),
  "column 'n' is of sequences. .*contrib.feature_column.sequence_input": (
    lambda: v1.feature_column.input_layer(
      {"n": tf.constant([[0.0]])},
      [tf.contrib.feature_column.sequence_numeric_column("n")],
    )
  ),
  "must be a _FeatureColumn.* tf.keras.experimental.SequenceFeatures": (
    lambda: tf.contrib.feature_column.sequence_input_layer(
      {}, [tf.feature_column.sequence_numeric_column("n")]
    )
  ),
  "not of sequences; .* into .*feature_column.input_layer": (
    lambda: tf.contrib.feature_column.sequence_input_layer(
      {}, [tf.feature_column.numeric_column("n")]
    )
  ),
  "feature_columns has a twice": lambda: layers.transform_features(
    {}, [_number()] * 2
  ),
  r"no feature 'a' among \['b'\]": lambda: layers.transform_features(
    {"b": _zeros(1)}, [_number()]
  ),
  "w_embedding is an embedding; .*column w itself": lambda: _weighted_sum(
    [layers.embedding_column(_words(), 2)]
  ),
  r"boundaries=\[2.0, 1.0\] must be sorted": lambda: layers.bucketized_column(
    _number(), [2.0, 1.0]
  ),
  r"default_value=\[1.0\] of the column a must have 3": lambda: _number(
    dimension=3, default_value=[1.0]
  ),
  "hash_bucket_size=1 must be at least 2": lambda: layers.crossed_column(
    [_words()] * 2, 1
  ),
  "vocab_size of the column a must be given": lambda: (
    layers.sparse_column_with_vocabulary_file("a", "words")
  ),
  # Layers, shapes and tables.
  r"x:0 has the shape \(2, 3\); \[2, 2\] is expected": lambda: (
    framework.with_shape([2, 2], _zeros(2, 3, name="x"))
  ),
  "expected of x:0 is .*'int64'.*must be one-dimensional": lambda: (
    framework.with_shape(tf.constant([2], tf.int64), _zeros(2, name="x"))
  ),
  "x:0 is of float32; it must be of integers": lambda: (
    framework.assert_scalar_int(_zeros(name="x"))
  ),
  "tensors is empty; reduce_sum_n": lambda: framework.reduce_sum_n([]),
  "vocab_size=5 and embed_dim=None": lambda: layers.embed_sequence(
    tf.constant([[1]]), 5
  ),
  "num_oov_buckets.*got -1": lambda: lookup.index_table_from_tensor(
    ["a"], num_oov_buckets=-1
  ),
  r"float32 and have the shape \(3,\); .* \[batch, classes\]": lambda: (
    sparsemax.sparsemax(_zeros(3))
  ),
  r"int32 and have the shape \(2, 3\); give floats": lambda: (
    sparsemax.sparsemax(tf.zeros([2, 3], tf.int32))
  ),
  # Solutions of differential equations, and losses of kernels.
  "method='rk45' must be 'dopri5'": lambda: integrate.odeint(
    tf.negative, 1.0, [0.0, 1.0], method="rk45"
  ),
  "options={'safety': 0.8} are .*give method='dopri5'": lambda: (
    integrate.odeint(tf.negative, 1.0, [0.0, 1.0], options={"safety": 0.8})
  ),
  "method='euler' must be one of midpoint, rk4": lambda: integrate.odeint_fixed(
    tf.negative, 1.0, [0.0, 1.0], method="euler"
  ),
  r"t has the shape \(1, 2\); .*vector": lambda: integrate.odeint(
    tf.negative, 1.0, [[0.0, 1.0]]
  ),
  r"dt has the shape \(3,\); .*each of the 1 intervals": lambda: (
    integrate.odeint_fixed(tf.negative, 1.0, [0.0, 1.0], [0.1, 0.1, 0.1])
  ),
  r"logits have the shape \(2,\)": lambda: _hinge(_zeros(2)),
  "labels are of float32; .*int32 or int64": lambda: _hinge(
    _zeros(2, 3), labels=_zeros(2)
  ),
  r"weights have the shape \(1, 1, 2\)": lambda: _hinge(
    _zeros(2, 3), weights=_zeros(1, 1, 2)
  ),
  # Optimizers and strategies.
  "momentum=-1.0 must be at least 0": lambda: opt.LARSOptimizer(
    0.1, momentum=-1.0
  ),
  r"bucket_boundaries=\[3, 3\] must be increasing": lambda: (
    training.bucket_by_sequence_length(3, [3], 2, [3, 3])
  ),
  "devices or num_gpus, not both": lambda: distribute.MirroredStrategy(
    devices=["/cpu:0"], num_gpus=1
  ),
  "auto_shard_dataset is for several": lambda: distribute.MirroredStrategy(
    auto_shard_dataset=True
  ),
  "'x' is none of hierarchical_copy, nccl": lambda: (
    distribute.AllReduceCrossDeviceOps("x")
  ),
  # Cells.
  r"shape \(2, 3, None\); a cell needs": lambda: rnn.LSTMBlockFusedCell(4)(
    v1.placeholder(tf.float32, [2, 3, None]), dtype=tf.float32
  ),
  "direction='both' must be 'uni": lambda: _lstm(direction="both"),
  "input_mode='x' must be one of lin": lambda: _lstm(input_mode="x"),
  "input_mode='skip_input' is not sup": lambda: _lstm(input_mode="skip_input"),
  r"shape \(3, 2\); CudnnLSTM needs \[time": lambda: _lstm()(_zeros(3, 2)),
  "initial_state has 1 parts; CudnnLSTM needs 2": lambda: _lstm()(
    _zeros(3, 2, 4), initial_state=(_zeros(2, 2, 3),)
  ),
  "num_proj=4 is not supported": lambda: (
    cudnn_rnn.CudnnParamsFormatConverterLSTM(1, 2, 3, num_proj=4)
  ),
  # Estimators.
  r"num_units=\[4\] and cell_type='gru' are not for an rnn_cell_fn": lambda: (
    estimator.RNNClassifier(
      [], num_units=[4], cell_type="gru", rnn_cell_fn=_gru
    )
  ),
  "num_units=None must have": lambda: estimator.RNNClassifier([]),
  "cell_type='cfn' must be one of basic_rnn, lstm, gru": lambda: (
    estimator.RNNClassifier([], num_units=[4], cell_type="cfn")
  ),
  "loss_reduction='none' must reduce": lambda: estimator.replicate_model_fn(
    lambda: None, loss_reduction="none"
  ),
  "return_sequences=True needs a head of sequences": lambda: (
    estimator.RNNEstimator(
      estimator.regression_head(), [], num_units=[4], return_sequences=True
    )
  ),
  # Sequences.
  "attention_layer_size has 2 values for 1": lambda: _wrapper(
    attention_layer_size=[3, 4]
  ),
  "attention_layer_size or attention_layer, not both": lambda: _wrapper(
    attention_layer_size=3, attention_layer=tf.identity
  ),
  r"the shape \(3, 5\) for one of the shape \(3, 4\)": lambda: (
    _wrapper().zero_state(3, tf.float32).clone(cell_state=_zeros(3, 5))
  ),
  "Set num_units .* to the query's, 4": lambda: _attention(7)(
    _zeros(3, 4), None
  ),
  r"maximum_iterations has the shape \(1,\)": lambda: seq2seq.dynamic_decode(
    _decoder(), maximum_iterations=[2]
  ),
  r"start_tokens has the shape \(\); .*vector": lambda: (
    seq2seq.GreedyEmbeddingHelper(_zeros(3, 4), 1, 0)
  ),
  r"shape \(3, 4\), .* 2 beams.*tile_batch with multiplier=2": _beams,
  "average_across_batch and sum_over_batch": lambda: seq2seq.sequence_loss(
    _zeros(2, 3, 4),
    tf.zeros([2, 3], tf.int32),
    tf.ones([2, 3]),
    sum_over_batch=True,
  ),
  "mode='soft' must be 'recursive', 'parallel' or 'hard'": lambda: (
    seq2seq.monotonic_attention([[0.5]], [[1.0]], "soft")
  ),
  "logits, targets and weights have 2, 1 and 1 steps": lambda: (
    legacy_seq2seq.sequence_loss([1, 2], [1], [1])
  ),
  "n_classes=1 must be 2 or more": lambda: learn.multi_class_head(1),
  r"label_keys=\['no', 'yes'\] needs 3 classes": lambda: learn.multi_class_head(
    2, label_keys=["no", "yes"]
  ),
  "label_keys has 2 names for 3 classes": lambda: learn.multi_class_head(
    3, label_keys=["no", "yes"]
  ),
  r"metric_class_ids=\[3\] has 3; there are classes 0 to 2": lambda: (
    learn.multi_label_head(3, metric_class_ids=[3])
  ),
  r"takes \['labels'\]; it has to take labels, logits": lambda: (
    learn.multi_label_head(3, loss_fn=lambda labels: None)
  ),
  "Give each head of multi_head a head_name": lambda: learn.multi_head(
    [learn.regression_head()]
  ),
  "loss_weights has 2 weights for 1 heads": lambda: learn.multi_head(
    [learn.regression_head(head_name="a")], [1.0, 2.0]
  ),
  "weight_column_name='w' is no feature; there are a": lambda: _ops_of(
    learn.regression_head(weight_column_name="w"), logits=_zeros(2, 1)
  ),
  "Give a head logits or logits_input": lambda: _ops_of(
    learn.regression_head()
  ),
  "takes no SparseTensor of labels": lambda: _ops_of(
    learn.regression_head(),
    tf.sparse.from_dense([[1.0]]),
    logits=_zeros(1, 1),
  ),
  "Labels are float32; multi_class_head needs integers": lambda: _ops_of(
    learn.multi_class_head(3), logits=_zeros(2, 3)
  ),
  "activation_fn='gelu' is none of relu, tanh, sigmoid": lambda: _deep(
    activation_fn="gelu"
  ),
  "which is no embedding_column. Leave it out": lambda: _deep(
    embedding_lr_multipliers={_words(): 2.0}
  ),
  "of which the model has no variable": lambda: _deep(
    embedding_lr_multipliers={layers.embedding_column(_words(), 2): 2.0}
  ),
  r"feature_columns=\[\] is empty": lambda: learn.LinearClassifier([]),
  "Give linear_feature_columns or dnn": learn.DNNLinearCombinedClassifier,
}


def _embedded_sequence():
  words = tf.feature_column.sequence_categorical_column_with_hash_bucket("w", 5)
  return tf.feature_column.embedding_column(words, 2)


_TYPE_ERRORS = {
  "Embedding.* is no column of tf.contrib.layers; .*sequence_input_layer": (
    lambda: layers.input_from_feature_columns({}, [_embedded_sequence()])
  ),
  "^Embedding.* is no column of tf.contrib.layers; .*sequence_input_layer": (
    lambda: layers.sequence_input_from_feature_columns(
      {}, [_embedded_sequence()]
    )
  ),
  "y0 is of int32; .*floats": lambda: integrate.odeint(
    tf.negative, 1, [0.0, 1.0]
  ),
  "t is of int32; .*floats": lambda: integrate.odeint_fixed(
    tf.negative, 1.0, tf.constant([0, 1])
  ),
  "'luong', which is no AttentionMechanism": lambda: seq2seq.AttentionWrapper(
    _gru(), "luong"
  ),
  "state=.* must be an AttentionWrapperState": lambda: _wrapper()(
    _zeros(3, 2), _zeros(3, 4)
  ),
  "helper='training' must be a Helper": lambda: _decoder("training"),
  "cell='lstm' is no RNNCell: it has no output_size, state": lambda: _decoder(
    cell="lstm"
  ),
  "decoder='greedy' must be a": lambda: seq2seq.dynamic_decode("greedy"),
  r"images have the shape \(2,\); their rank": lambda: image.rotate(
    _zeros(2), 0.1
  ),
}


class RefusalsTest(parameterized.TestCase):
  @parameterized.parameters(
    *((ValueError, *one) for one in _VALUE_ERRORS.items()),
    *((TypeError, *one) for one in _TYPE_ERRORS.items()),
  )
  def test_says_what_is_wrong(self, error, message, use):
    with tf.Graph().as_default(), self.assertRaisesRegex(error, message):
      use()


if __name__ == "__main__":
  absltest.main()
