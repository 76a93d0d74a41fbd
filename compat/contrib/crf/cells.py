"""One step along a chain of tags, as cells of an RNN."""

from typing import Any

import tensorflow as tf


def after_the_first(inputs: tf.Tensor) -> tf.Tensor:
  """Returns what the cells read: the steps after the first, where they begin.

  The first step comes last, and no sequence is long enough to read it: an RNN
  of no steps at all cannot be run.

  Args:
    inputs: [batch, time, ...].
  """
  return tf.roll(inputs, -1, 1)


def _scores(state: tf.Tensor, transitions: tf.Tensor) -> tf.Tensor:
  """Returns the scores [batch, tag before, tag now] of all continuations."""
  return state[:, :, tf.newaxis] + transitions[tf.newaxis]


class CrfForwardRnnCell(tf.compat.v1.nn.rnn_cell.RNNCell):
  """Sums over the tags before: the forward algorithm.

  The state is the log of the summed scores of all chains by their last tag.
  """

  def __init__(self, transition_params: Any):
    """Makes the cell.

    Args:
      transition_params: scores [tag before, tag now].
    """
    super().__init__()
    self._transitions = tf.convert_to_tensor(transition_params)
    self._num_tags = self._transitions.shape[0]

  @property
  def state_size(self) -> Any:
    """The number of tags."""
    return self._num_tags

  @property
  def output_size(self) -> Any:
    """The number of tags."""
    return self._num_tags

  def __call__(
    self, inputs: tf.Tensor, state: tf.Tensor, scope: Any = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes one step.

    Args:
      inputs: scores of the tags at this step [batch, tags].
      state: [batch, tags].
      scope: unused.

    Returns:
      The new state, twice.
    """
    del scope
    after = inputs + tf.reduce_logsumexp(_scores(state, self._transitions), 1)
    return after, after


class CrfDecodeForwardRnnCell(tf.compat.v1.nn.rnn_cell.RNNCell):
  """Takes the best of the tags before: the forward pass of Viterbi's algorithm.

  The state is the score of the best chain by its last tag; the output says
  which tag was before that.
  """

  def __init__(self, transition_params: Any):
    """Makes the cell.

    Args:
      transition_params: scores [tag before, tag now].
    """
    super().__init__()
    self._transitions = tf.convert_to_tensor(transition_params)
    self._num_tags = self._transitions.shape[0]

  @property
  def state_size(self) -> Any:
    """The number of tags."""
    return self._num_tags

  @property
  def output_size(self) -> Any:
    """The number of tags."""
    return self._num_tags

  def __call__(
    self, inputs: tf.Tensor, state: tf.Tensor, scope: Any = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes one step.

    Args:
      inputs: scores of the tags at this step [batch, tags].
      state: [batch, tags].
      scope: unused.

    Returns:
      The best tags before, int32 [batch, tags], and the new state.
    """
    del scope
    scores = _scores(state, self._transitions)
    before = tf.argmax(scores, 1, output_type=tf.int32)
    return before, inputs + tf.reduce_max(scores, 1)


class CrfDecodeBackwardRnnCell(tf.compat.v1.nn.rnn_cell.RNNCell):
  """Follows the best tags from the last to the first.

  The state is the tag at this step, [batch, 1].
  """

  def __init__(self, num_tags: int):
    """Makes the cell.

    Args:
      num_tags: how many tags there are.
    """
    super().__init__()
    self._num_tags = num_tags

  @property
  def state_size(self) -> int:
    """One tag."""
    return 1

  @property
  def output_size(self) -> int:
    """One tag."""
    return 1

  def __call__(
    self, inputs: tf.Tensor, state: tf.Tensor, scope: Any = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes one step back.

    Args:
      inputs: the best tags before, int32 [batch, tags].
      state: the tag at this step, int32 [batch, 1].
      scope: unused.

    Returns:
      The tag before, int32 [batch, 1], twice.
    """
    del scope
    before = tf.gather(inputs, state, batch_dims=1)
    return before, before
