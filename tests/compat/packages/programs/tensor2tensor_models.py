"""tensor2tensor's transformer_tiny and a resnet, on problems that it generates.

The data are written and read by tensor2tensor: generate_data, TFRecords, the
problem's input pipeline. Training reads them as evaluation does, unshuffled.
"""

import os
import random

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
from tensor2tensor import models  # noqa: F401  Registers them.
from tensor2tensor.data_generators import algorithmic, image_utils
from tensor2tensor.utils import decoding, registry, trainer_lib

_SIZE = 16
_MODES = tf.estimator.ModeKeys


@registry.register_problem
class TinyReverse(algorithmic.AlgorithmicReverseBinary40Test):
  """Digits to be written backwards, ten at most."""

  @property
  def train_size(self):
    return 10

  @property
  def dev_size(self):
    return 40


@registry.register_problem
class TinyImages(image_utils.Image2ClassProblem):
  """Pictures that are light above or below, left or right."""

  @property
  def is_small(self):
    return True

  @property
  def num_classes(self):
    return 4

  @property
  def train_shards(self):
    return 1

  def generator(self, data_dir, tmp_dir, is_training):
    labels = [number % 4 for number in range(8 if is_training else 40)]
    images = [_image(label) for label in labels]
    return image_utils.image_generator(images, labels)

  def preprocess_example(self, example, mode, unused_hparams):
    image = tf.to_float(example["inputs"])
    image.set_shape([_SIZE, _SIZE, 3])
    example["inputs"] = tf.image.per_image_standardization(image)
    return example


def _image(label):
  image = np.random.randint(0, 128, (_SIZE, _SIZE, 3))
  half = slice(0, _SIZE // 2) if label % 2 else slice(_SIZE // 2, _SIZE)
  image[(half,) if label < 2 else (slice(None), half)] += 127
  return image.astype(np.uint8)


def transformer(directory):
  """transformer_tiny with its dropout, and a beam of four."""
  return _model(
    directory,
    "tiny_reverse",
    "transformer",
    "transformer_tiny",
    "batch_size=128,learning_rate_warmup_steps=20,learning_rate_constant=0.1,symbol_modality_num_shards=1",
    "beam_size=4,alpha=0.6",
  )


def resnet(directory):
  """resnet_cifar_15 for pictures of 16 by 16, channels last."""
  return _model(
    directory,
    "tiny_images",
    "resnet",
    "resnet_cifar_15",
    "use_nchw=False,batch_size=8,learning_rate=0.01",
    "",
  )


def _model(directory, problem_name, model_name, hparams_set, changes, decode):
  """As t2t_trainer makes it from the flags of these names."""
  data_dir = os.path.join(directory, "data")
  tf.gfile.MakeDirs(data_dir)
  random.seed(3)
  np.random.seed(3)
  problem = registry.problem(problem_name)
  problem.generate_data(data_dir, os.path.join(directory, "tmp"))
  hparams = trainer_lib.create_hparams(
    hparams_set, changes, data_dir=data_dir, problem_name=problem_name
  )
  model_dir = os.path.join(directory, "model")
  for name, value in (("warm_start_from", None), ("model_dir", model_dir)):
    hparams.add_hparam(name, value)
  estimator = trainer_lib.create_estimator(
    model_name,
    hparams,
    trainer_lib.create_run_config(
      model_name,
      model_dir=model_dir,
      random_seed=1,
      no_data_parallelism=True,
    ),
    decode_hparams=decoding.decode_hparams(decode),
  )
  evaluated = problem.make_estimator_input_fn(_MODES.EVAL, hparams)

  def trained(params, config):
    return evaluated(params, config).repeat()

  return harness.Model(
    estimator,
    trained,
    evaluated,
    ("outputs",),
    problem.make_estimator_input_fn(_MODES.PREDICT, hparams),
  )
