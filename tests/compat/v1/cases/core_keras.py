"""tf.keras of 1.15 in graphs: layers, names, weights, losses, optimizers."""

import numpy as np
import tensorflow as tf

_R = np.random.RandomState(11)
_IMAGES = _R.normal(size=(3, 6, 6, 2)).astype(np.float32)
_ROWS = _R.normal(size=(4, 5)).astype(np.float32)
_SEQUENCES = _R.normal(size=(2, 4, 3)).astype(np.float32)


def _rows():
  return tf.placeholder_with_default(_ROWS, [None, 5])


def dense():
  layers = tf.keras.layers
  y = layers.Dense(4, "relu", kernel_regularizer="l2")(_rows())
  y = layers.Dropout(0.5, seed=3)(y, training=True)
  y = layers.PReLU()(layers.BatchNormalization()(y))
  y = layers.Dense(
    2, kernel_initializer="he_normal", bias_initializer="random_uniform"
  )(y)
  return {"y": y}


def convolutions():
  layers = tf.keras.layers
  x = tf.placeholder_with_default(_IMAGES, [None, 6, 6, 2])
  y = layers.Conv2D(3, 3, padding="same", activation=tf.nn.elu)(x)
  y = layers.MaxPooling2D()(y)
  y = layers.SeparableConv2D(4, 2)(y)
  y = layers.UpSampling2D()(y)
  y = layers.UpSampling2D(interpolation="bilinear")(y)
  y = layers.Conv2DTranspose(2, 3, strides=2)(y)
  y = layers.ZeroPadding2D()(layers.DepthwiseConv2D(2)(y))
  return {
    "y": y,
    "pool": layers.GlobalAveragePooling2D()(y),
    "flat": layers.Flatten()(layers.AveragePooling2D(3)(y)),
  }


def recurrent():
  layers = tf.keras.layers
  x = tf.placeholder_with_default(_SEQUENCES, [None, 4, 3])
  lstm = layers.LSTM(3, return_sequences=True)(x)
  gru = layers.GRU(2)(x)
  both = layers.Bidirectional(layers.LSTM(2))(x)
  simple = layers.SimpleRNN(2, go_backwards=True)(x)
  cell = layers.RNN(layers.LSTMCell(2), return_state=True)(x)
  stacked = layers.RNN([layers.GRUCell(2), layers.GRUCell(3)])(x)
  return {
    "lstm": lstm,
    "gru": gru,
    "both": both,
    "simple": simple,
    "cell": cell[1],
    "stacked": stacked,
  }


def embedding_and_masks():
  layers = tf.keras.layers
  ids = tf.placeholder_with_default(np.array([[1, 2, 0], [3, 0, 0]]), [2, 3])
  y = layers.Embedding(5, 3, mask_zero=True)(ids)
  masked = layers.Masking()(tf.constant(_SEQUENCES))
  return {"y": layers.LSTM(2)(y), "masked": masked}


def models():
  keras = tf.keras
  inputs = keras.layers.Input([5])
  hidden = keras.layers.Dense(3, activation="tanh", name="hidden")(inputs)
  model = keras.models.Model(inputs, keras.layers.Dense(1)(hidden))
  sequential = keras.Sequential(
    [keras.layers.Dense(3, input_shape=(5,)), keras.layers.Activation("relu")]
  )
  return {
    "y": model(_rows()),
    "z": sequential(_rows()),
    "count": model.count_params(),
    "names": " ".join([model.name, sequential.name, inputs.name]),
    "layers": " ".join(layer.name for layer in model.layers),
    "weights": " ".join(v.name for v in model.trainable_weights),
    "config": str(sorted(sequential.get_config())),
  }


class _Block(tf.keras.Model):
  def __init__(self):
    super(_Block, self).__init__(name="block")
    self.first = tf.keras.layers.Dense(3)
    self.second = tf.keras.layers.Dense(2, name="out")

  def call(self, inputs, training=None):
    return self.second(self.first(inputs))


class _Scale(tf.keras.layers.Layer):
  def build(self, input_shape):
    self.scale = self.add_weight(
      "scale", shape=[int(input_shape[-1])], initializer="ones"
    )
    self.shift = self.add_weight(
      name="shift", shape=input_shape[1:], regularizer=tf.nn.l2_loss
    )
    super(_Scale, self).build(input_shape)

  def call(self, inputs):
    return inputs * self.scale + self.shift


def subclasses():
  block = _Block()
  scale = _Scale()
  with tf.variable_scope("outer"):
    y = block(_rows())
  z = scale(_rows())
  return {
    "y": y,
    "z": z,
    "losses": len(scale.losses),
    "names": " ".join(v.name for v in block.variables + scale.variables),
  }


class _Counting(tf.keras.layers.Layer):
  def build(self, input_shape):
    self.total = self.add_weight(
      "total", [], initializer="zeros", trainable=False
    )

  def call(self, inputs):
    total = tf.assign_add(self.total, tf.reduce_sum(inputs))
    self.add_update(total, inputs=inputs)
    self.add_update([tf.assign_add(self.total, 0.0)])
    self.add_loss(tf.reduce_sum(inputs), inputs=inputs)
    return inputs * 2


def updates():
  layer, x = _Counting(), _rows()
  y = layer.apply(x)
  batch_norm = tf.keras.layers.BatchNormalization()
  z = batch_norm(y, training=True)
  return {
    "z": z,
    "counts": str(
      [
        len(layer.updates),
        len(layer.get_updates_for(x)),
        len(layer.get_updates_for(None)),
        len(layer.losses),
        len(layer.get_losses_for(x)),
        len(batch_norm.updates),
        len(batch_norm.get_updates_for(y)),
      ]
    ),
  }


def losses_and_metrics():
  keras = tf.keras
  y = tf.nn.softmax(_rows())
  t = tf.one_hot([0, 3, 4, 1], 5)
  return {
    "cosine": keras.losses.cosine_similarity(t, y),
    "cosine_object": keras.losses.CosineSimilarity()(t, y),
    "cosine_metric": keras.metrics.cosine(t, y),
  }


def _trained(optimizer):
  y = tf.keras.layers.Dense(3, activation="tanh")(_rows())
  loss = tf.reduce_mean(tf.square(y - 1))
  variables = tf.trainable_variables()
  slopes = optimizer.get_gradients(loss, variables)
  train = optimizer.apply_gradients(zip(slopes, variables))
  return {"loss": loss}, train


def adam():
  return _trained(tf.keras.optimizers.Adam(0.01, amsgrad=True))


def preprocessing():
  keras = tf.keras
  tokens = keras.preprocessing.text.Tokenizer()
  tokens.fit_on_texts(["a b b", "c"])
  return {
    "padded": keras.preprocessing.sequence.pad_sequences([[1], [1, 2]]),
    "categories": keras.utils.to_categorical([0, 2], 3),
    "sequences": str(tokens.texts_to_sequences(["b a"])),
    "words": str(keras.preprocessing.text.text_to_word_sequence(text="A, b")),
    "normalized": keras.utils.normalize(_ROWS),
  }


def fitted():
  keras = tf.keras
  model = keras.Sequential(
    [keras.layers.Dense(3, "relu", input_shape=(5,)), keras.layers.Dense(2)]
  )
  model.compile("adam", "mse", metrics=["mae"])
  history = model.fit(
    _ROWS, _ROWS[:, :2], batch_size=2, epochs=2, shuffle=False, verbose=0
  )
  names = " ".join(v.name for v in tf.global_variables())
  return {
    "loss": np.float32(history.history["loss"]),
    "keys": " ".join(sorted(history.history)),
    "predictions": model.predict(_ROWS),
    "names": names,
    "weights": model.get_weights()[0],
    "count": len(model.optimizer.get_weights()),
  }


def fitted_recurrent():
  keras = tf.keras
  model = keras.Sequential(
    [
      keras.layers.LSTM(3, input_shape=(4, 3), return_sequences=True),
      keras.layers.Bidirectional(keras.layers.GRU(2)),
      keras.layers.Dense(1, activation="sigmoid"),
    ]
  )
  model.compile(
    keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["accuracy"]
  )
  history = model.fit(
    _SEQUENCES, np.float32([0, 1]), epochs=2, shuffle=False, verbose=0
  )
  return {
    "loss": np.float32(history.history["loss"]),
    "keys": " ".join(sorted(history.history)),
    "names": " ".join(v.name for v in model.weights),
    "classes": model.predict_classes(_SEQUENCES),
  }
