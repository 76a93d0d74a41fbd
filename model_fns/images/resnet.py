"""resnet: residual networks for images (He et al., 2015, arXiv:1512.03385).

The rectifier comes after each addition, as in the paper, which has depths from
18 on; 10 is one block for each group. In a bottleneck the
3x3 convolution has the stride (Goyal et al., 2017, arXiv:1706.02677), which is
what is trained under the name ResNet-50 today.
"""

import dataclasses
import functools
from collections.abc import Mapping

from model_fns import sharded, training

import tensorflow as tf

v1 = tf.compat.v1

_BATCH_NORM_MOMENTUM = 0.9
_BATCH_NORM_EPSILON = 1e-5
# A bottleneck's output has this many times the channels of its convolutions.
_EXPANSION = 4


@dataclasses.dataclass(frozen=True)
class _Depth:
  """The blocks of a network of one depth.

  Attributes:
    blocks: How many blocks each of the four groups has.
    has_bottlenecks: Whether a block is 1x1, 3x3, 1x1; else it is 3x3, 3x3.
  """

  blocks: tuple[int, int, int, int]
  has_bottlenecks: bool


_DEPTHS: Mapping[int, _Depth] = {
  10: _Depth((1, 1, 1, 1), has_bottlenecks=False),
  18: _Depth((2, 2, 2, 2), has_bottlenecks=False),
  34: _Depth((3, 4, 6, 3), has_bottlenecks=False),
  50: _Depth((3, 4, 6, 3), has_bottlenecks=True),
}
STEMS = ("small", "large")


def stepped_momentum(
  learning_rate: float = 0.1, train_steps: int = 64_000
) -> tf.compat.v1.train.Optimizer:
  """Returns momentum of 0.9 with the paper's schedule for CIFAR-10.

  The learning rate is a tenth after half of the steps, and a hundredth after
  three quarters.

  Args:
    learning_rate: The rate at first.
    train_steps: How many steps there will be.
  """
  rate = v1.train.piecewise_constant(
    v1.train.get_global_step(),
    [train_steps // 2, train_steps * 3 // 4],
    [learning_rate, learning_rate / 10, learning_rate / 100],
  )
  return v1.train.MomentumOptimizer(rate, 0.9)


def resnet(
  num_classes: int,
  depth: int = 18,
  *,
  width: int = 64,
  stem: str = "small",
  weight_decay: float = 1e-4,
  config: sharded.Config = None,
  optimizer: training.OptimizerOrFn = stepped_momentum,
) -> sharded.ModelFn:
  """Returns the model_fn of a residual network that classifies images.

  The features are {"image": float32 [batch, height, width, channels]}, images
  of any size, the labels classes, int [batch] or [batch, 1]. It evaluates to
  its `accuracy` and `average_loss`, without weight decay, which is a part of
  `loss`. It predicts "logits", "probabilities" and the "class".

  Batch normalisation takes the statistics of the whole batch, however it is
  split; with `batch_norm="per_micro_batch"` those of each micro-batch.

  Args:
    num_classes: Number of classes.
    depth: 10, 18 or 34, of blocks of two convolutions, or 50, of bottlenecks.
    width: The channels of the first group; each other one has twice as many.
    stem: The first layers: for images of up to about 64 pixels "small", a 3x3
      convolution; "large", a 7x7 convolution and a pooling, both with strides,
      so that later layers see a sixteenth of the pixels.
    weight_decay: Factor of half the sum of squares of all kernels in the loss.
    config: The devices: a `ShardingConfig`, a mesh or its text; None for one
      device.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If a number is out of range, there is no such depth or stem, or
      the mesh cannot be made.
    TypeError: If the optimizer or the config is of another type.
  """
  _check_sizes(num_classes, depth, width, stem, weight_decay)
  training.check_optimizer(optimizer)

  def plain_model_fn(
    features: Mapping[str, tf.Tensor], labels: tf.Tensor | None, mode: str
  ) -> tf.estimator.EstimatorSpec:
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    images = tf.cast(features["image"], tf.float32)
    with v1.variable_scope("resnet"):
      net = _stem(images, width, stem, is_training)
      net = _groups(net, _DEPTHS[depth], width, is_training)
      # The mean over all pixels, however many there are.
      net = tf.reduce_mean(net, axis=[1, 2])
      logits = _classified(net, num_classes)
    return _spec(logits, labels, mode, weight_decay, optimizer)

  return sharded.model_fn(plain_model_fn, config)


def _check_sizes(
  num_classes: int, depth: int, width: int, stem: str, weight_decay: float
) -> None:
  if num_classes < 2:
    raise ValueError(
      f"num_classes={num_classes} is too few; a classifier needs at least 2"
    )
  if depth not in _DEPTHS:
    raise ValueError(
      f"depth={depth!r} is not known; use one of {', '.join(map(str, _DEPTHS))}"
    )
  if width < 1:
    raise ValueError(f"width={width} is too small; use at least 1 channel")
  if stem not in STEMS:
    raise ValueError(
      f"stem={stem!r} is not known; use one of {', '.join(STEMS)}"
    )
  if weight_decay < 0:
    raise ValueError(
      f"weight_decay={weight_decay} would make weights grow; use 0 or more"
    )


def _stem(
  images: tf.Tensor, width: int, stem: str, is_training: bool
) -> tf.Tensor:
  """Returns what the first group reads, float32 [batch, h, w, width]."""
  with v1.variable_scope("stem"):
    if stem == "small":
      return tf.nn.relu(_convolution(images, width, 3, 1, is_training))
    net = tf.nn.relu(_convolution(images, width, 7, 2, is_training))
    return tf.nn.max_pool2d(net, ksize=3, strides=2, padding="SAME")


def _groups(
  net: tf.Tensor, depth: _Depth, width: int, is_training: bool
) -> tf.Tensor:
  """Returns what the last group makes; each but the first halves the image."""
  block = _bottleneck if depth.has_bottlenecks else _basic_block
  for group, num_blocks in enumerate(depth.blocks):
    for number in range(num_blocks):
      stride = 2 if group and not number else 1
      with v1.variable_scope(f"group_{group}/block_{number}"):
        net = block(net, width * 2**group, stride, is_training)
  return net


def _basic_block(
  net: tf.Tensor, channels: int, stride: int, is_training: bool
) -> tf.Tensor:
  """Returns a block of two convolutions of 3x3."""
  convolve = functools.partial(_convolution, is_training=is_training)
  shortcut = _shortcut(net, channels, stride, is_training)
  with v1.variable_scope("first"):
    net = tf.nn.relu(convolve(net, channels, 3, stride))
  with v1.variable_scope("second"):
    return tf.nn.relu(convolve(net, channels, 3, 1) + shortcut)


def _bottleneck(
  net: tf.Tensor, channels: int, stride: int, is_training: bool
) -> tf.Tensor:
  """Returns a block whose 3x3 convolution is between two of 1x1."""
  convolve = functools.partial(_convolution, is_training=is_training)
  shortcut = _shortcut(net, channels * _EXPANSION, stride, is_training)
  with v1.variable_scope("reduce"):
    net = tf.nn.relu(convolve(net, channels, 1, 1))
  with v1.variable_scope("convolve"):
    net = tf.nn.relu(convolve(net, channels, 3, stride))
  with v1.variable_scope("expand"):
    return tf.nn.relu(convolve(net, channels * _EXPANSION, 1, 1) + shortcut)


def _shortcut(
  net: tf.Tensor, channels: int, stride: int, is_training: bool
) -> tf.Tensor:
  """Returns what is added: the block's input, projected if its shape changes.

  That is option B of the paper.
  """
  if stride == 1 and net.shape[-1] == channels:
    return net
  with v1.variable_scope("shortcut"):
    return _convolution(net, channels, 1, stride, is_training)


def _convolution(
  net: tf.Tensor, channels: int, size: int, stride: int, is_training: bool
) -> tf.Tensor:
  """Returns a normalised convolution, without a rectifier."""
  kernel = v1.get_variable(
    "kernel",
    [size, size, net.shape[-1], channels],
    # He et al., 2015, arXiv:1502.01852, for the backward pass.
    initializer=v1.variance_scaling_initializer(
      2.0, "fan_out", "untruncated_normal"
    ),
  )
  net = tf.nn.conv2d(net, kernel, stride, "SAME")
  with v1.variable_scope("norm"):
    return _normalised(net, is_training)


def _normalised(net: tf.Tensor, is_training: bool) -> tf.Tensor:
  """Returns batch normalisation (Ioffe and Szegedy, 2015, arXiv:1502.03167).

  The ops that update its moving averages in training are in the collection of
  `UPDATE_OPS`, as those of `tf.compat.v1.layers`.
  """
  create = functools.partial(v1.get_variable, shape=[net.shape[-1]])
  ones, zeros = v1.ones_initializer(), v1.zeros_initializer()
  scale = create("gamma", initializer=ones)
  offset = create("beta", initializer=zeros)
  averages = (
    create("moving_mean", initializer=zeros, trainable=False),
    create("moving_variance", initializer=ones, trainable=False),
  )
  normalise = functools.partial(
    v1.nn.fused_batch_norm, net, scale, offset, epsilon=_BATCH_NORM_EPSILON
  )
  if not is_training:
    mean, variance = averages
    return normalise(mean=mean, variance=variance, is_training=False)[0]
  normalised, *statistics = normalise()
  for average, statistic in zip(averages, statistics, strict=True):
    change = (average - statistic) * (1 - _BATCH_NORM_MOMENTUM)
    update = v1.assign_sub(average, change)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
  return normalised


def _classified(net: tf.Tensor, num_classes: int) -> tf.Tensor:
  """Returns the logits of vectors, float32 [batch, num_classes]."""
  with v1.variable_scope("classifier"):
    kernel = v1.get_variable(
      "kernel",
      [net.shape[-1], num_classes],
      initializer=v1.glorot_uniform_initializer(),
    )
    bias = v1.get_variable(
      "bias", [num_classes], initializer=v1.zeros_initializer()
    )
    return tf.nn.bias_add(tf.matmul(net, kernel), bias)


def _spec(
  logits: tf.Tensor,
  labels: tf.Tensor | None,
  mode: str,
  weight_decay: float,
  optimizer: training.OptimizerOrFn,
) -> tf.estimator.EstimatorSpec:
  predictions = {
    "logits": logits,
    "probabilities": tf.nn.softmax(logits),
    "class": tf.argmax(logits, axis=-1, output_type=tf.int32),
  }
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  classes = tf.reshape(labels, [-1])
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)
  loss = tf.reduce_mean(losses) + _decay(weight_decay)
  if mode == tf.estimator.ModeKeys.TRAIN:
    update_ops = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    train_op = training.make_train_op(loss, optimizer, update_ops)
    return tf.estimator.EstimatorSpec(
      mode, predictions, loss, train_op=train_op
    )
  metrics = {
    "accuracy": v1.metrics.accuracy(classes, predictions["class"]),
    "average_loss": v1.metrics.mean(losses),
  }
  return tf.estimator.EstimatorSpec(
    mode, predictions, loss, eval_metric_ops=metrics
  )


def _decay(weight_decay: float) -> tf.Tensor:
  """Returns what kernels add to the loss; norms and biases do not decay."""
  kernels = [x for x in v1.trainable_variables() if x.shape.rank > 1]
  with v1.name_scope("weight_decay"):
    return weight_decay * tf.add_n([tf.nn.l2_loss(x) for x in kernels])
