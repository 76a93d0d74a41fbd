"""Trains and evaluates a classifier of reviews."""

import os

import estimator_mp

import modeling
import optimization
import tensorflow as tf

flags = tf.flags
FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", "data", "Where train.tsv and dev.tsv are.")
flags.DEFINE_string("bert_config_file", "config.json", "Sizes of the model.")
flags.DEFINE_string("output_dir", "output", "For checkpoints.")
flags.DEFINE_integer("max_seq_length", 20, "Words of an example, padded.")
flags.DEFINE_integer("train_batch_size", 32, "Examples of a step.")
flags.DEFINE_float("learning_rate", 1e-3, "After the warm-up.")
flags.DEFINE_integer("num_train_steps", 150, "Steps to train.")
flags.DEFINE_integer("num_warmup_steps", 15, "Steps of the warm-up.")


def read_examples(name):
  """Returns ids, masks and labels of a file."""
  with tf.gfile.GFile(os.path.join(FLAGS.data_dir, "vocab.txt")) as reader:
    vocabulary = {word.strip(): n for n, word in enumerate(reader)}
  all_ids, masks, labels = [], [], []
  with tf.gfile.GFile(os.path.join(FLAGS.data_dir, name)) as reader:
    for line in reader:
      label, text = line.rstrip("\n").split("\t")
      words = ["[CLS]", *text.split(), "[SEP]"]
      padding = FLAGS.max_seq_length - len(words)
      all_ids.append([vocabulary[word] for word in words] + [0] * padding)
      masks.append([1] * len(words) + [0] * padding)
      labels.append(int(label))
  return {"input_ids": all_ids, "input_mask": masks, "label_ids": labels}


def input_fn_builder(examples, is_training):
  """Returns an input_fn for TPUEstimator."""

  def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices(examples)
    if is_training:
      data = data.repeat().shuffle(1000, seed=1)
    return data.batch(params["batch_size"], drop_remainder=is_training)

  return input_fn


def model_fn_builder(config, num_labels):
  """Returns a model_fn for TPUEstimator."""

  def model_fn(features, labels, mode, params):
    del labels, params
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    output = modeling.encode(
      features["input_ids"], features["input_mask"], config, is_training
    )
    rate = config.hidden_dropout_prob if is_training else 0.0
    output = modeling.dropout(output, rate)
    logits = tf.layers.dense(output, num_labels, name="classifier")
    probabilities = tf.nn.softmax(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.contrib.tpu.TPUEstimatorSpec(
        mode, predictions={"probabilities": probabilities}
      )
    one_hot = tf.one_hot(features["label_ids"], num_labels)
    losses = -tf.reduce_sum(one_hot * tf.nn.log_softmax(logits), axis=-1)
    loss = tf.reduce_mean(losses)
    if is_training:
      train_op = optimization.create_optimizer(
        loss,
        FLAGS.learning_rate,
        FLAGS.num_train_steps,
        FLAGS.num_warmup_steps,
      )
      return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def metric_fn(label_ids, logits):
      found = tf.argmax(logits, axis=-1, output_type=tf.int32)
      return {"eval_accuracy": tf.metrics.accuracy(label_ids, found)}

    return tf.contrib.tpu.TPUEstimatorSpec(
      mode,
      loss=loss,
      eval_metrics=(metric_fn, [features["label_ids"], logits]),
    )

  return model_fn


def main(_):
  """Trains, evaluates, and predicts one example."""
  tf.logging.set_verbosity(tf.logging.INFO)
  tf.gfile.MakeDirs(FLAGS.output_dir)
  config = modeling.Config.from_json_file(FLAGS.bert_config_file)
  estimator = tf.contrib.tpu.TPUEstimator(
    use_tpu=False,
    model_fn=model_fn_builder(config, num_labels=2),
    config=tf.contrib.tpu.RunConfig(
      model_dir=FLAGS.output_dir, tf_random_seed=1
    ),
    train_batch_size=FLAGS.train_batch_size,
    eval_batch_size=50,
    predict_batch_size=50,
  )
  estimator = estimator_mp.shard_estimator(
    estimator, estimator_mp.ShardingConfig("stage:2,model:2")
  )
  train, dev = read_examples("train.tsv"), read_examples("dev.tsv")
  estimator.train(
    input_fn_builder(train, True), max_steps=FLAGS.num_train_steps
  )
  result = estimator.evaluate(input_fn_builder(dev, False))
  print("eval_accuracy %.3f" % result["eval_accuracy"])
  first = next(estimator.predict(input_fn_builder(dev, False)))
  print("the first review is good: %.2f" % first["probabilities"][1])


if __name__ == "__main__":
  tf.app.run()
