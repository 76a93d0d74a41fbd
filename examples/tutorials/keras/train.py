"""Digits: a compiled tf_keras model, trained by an Estimator on two devices."""

import estimator_mp  # Before TensorFlow: it chooses Keras 2.
import model_fns

import sklearn.datasets
import tensorflow as tf

images, labels = sklearn.datasets.load_digits(return_X_y=True)
images = (images / 16).astype("float32")
held_out = slice(1400, None)


def input_fn() -> tf.data.Dataset:
  """Returns batches of 64 images, without an end."""
  data = tf.data.Dataset.from_tensor_slices((images[:1400], labels[:1400]))
  return data.shuffle(1400, seed=1).repeat().batch(64)


def make_model() -> tf.keras.Model:
  """Returns four dense layers, one of them normalized."""
  image = tf.keras.Input([64], name="image")
  net = tf.keras.layers.Dense(1024, "relu", name="first")(image)
  net = tf.keras.layers.LayerNormalization(name="norm")(net)
  net = tf.keras.layers.Dense(1024, "relu", name="second")(net)
  net = tf.keras.layers.Dropout(0.2, name="dropout")(net)
  net = tf.keras.layers.Dense(1024, "relu", name="third")(net)
  digit = tf.keras.layers.Dense(10, "softmax", name="digit")(net)
  model = tf.keras.Model(image, digit)
  model.compile(
    tf.keras.optimizers.Adam(0.001, epsilon=1e-5),
    "sparse_categorical_crossentropy",
    ["accuracy"],
  )
  return model


if __name__ == "__main__":
  tf.keras.utils.set_random_seed(1)
  model = make_model()
  estimator = tf.estimator.Estimator(model_fns.keras(model), "runs/keras")
  estimator = estimator_mp.shard_estimator(
    estimator, estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)
  )
  estimator.train(input_fn, max_steps=110)
  model_fns.load_keras_weights(model, "runs/keras")
  found = model.evaluate(images[held_out], labels[held_out], verbose=0)
  print("accuracy %.2f" % found[1])
