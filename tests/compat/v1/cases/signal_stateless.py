"""tf.contrib.signal and tf.contrib.stateless."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_SIGNALS = _RANDOM.normal(size=(2, 50)).astype(np.float32)
_FRAMES = _RANDOM.normal(size=(2, 6, 8)).astype(np.float32)


def _given(array):
  value = tf.placeholder_with_default(array, array.shape)
  return value * tf.get_variable("scale", initializer=1.5)


def frames():
  signal = tf.contrib.signal
  signals = _given(_SIGNALS)
  framed = signal.frame(signals, 8, 3, pad_end=True, pad_value=2.0)
  return {
    "framed": framed,
    "plain": signal.frame(signals, 8, 8),
    "added": signal.overlap_and_add(framed, 3),
  }


def windows():
  signal = tf.contrib.signal
  return {
    "hann": signal.hann_window(8),
    "hann_odd": signal.hann_window(7, periodic=False),
    "hann_one": signal.hann_window(1),
    "hamming": signal.hamming_window(9),
    "hamming_even": signal.hamming_window(6, periodic=False),
    "inverse": signal.inverse_stft_window_fn(3)(8, tf.float32),
  }


def transforms():
  signal = tf.contrib.signal
  transformed = signal.stft(
    _given(_SIGNALS), 16, 8, fft_length=20, pad_end=True
  )
  return {
    "real": tf.real(transformed),
    "imaginary": tf.imag(transformed),
    "back": signal.inverse_stft(
      transformed, 16, 8, 20, window_fn=signal.inverse_stft_window_fn(8)
    ),
  }


def mel():
  signal = tf.contrib.signal
  matrix = signal.linear_to_mel_weight_matrix(8, 11, 4000, 100.0, 1900.0)
  spectra = tf.abs(signal.stft(_given(_SIGNALS), 20, 10, 20))
  mels = tf.log(tf.tensordot(spectra, matrix, 1) + 1e-3)
  return {
    "matrix": matrix,
    "default": signal.linear_to_mel_weight_matrix(),
    "coefficients": signal.mfccs_from_log_mel_spectrograms(mels),
  }


def stateless():
  draw = tf.contrib.stateless
  seed = tf.placeholder_with_default(np.array([3, 5]), [2])
  return {
    "normal": draw.stateless_random_normal([2, 7], seed, 1.0, 2.0),
    "uniform": draw.stateless_random_uniform([2, 7], seed=seed),
    "integers": draw.stateless_random_uniform(
      [9], seed, minval=-5, maxval=50, dtype=tf.int64
    ),
    "small_integers": draw.stateless_random_uniform(
      [9], [1, 2], 0, 7, tf.int32
    ),
    "truncated": draw.stateless_truncated_normal([20], [7, -8], stddev=0.5),
    "double": draw.stateless_random_uniform([4], seed, dtype=tf.float64),
    "half": draw.stateless_random_normal([4], seed, dtype=tf.float16),
    "multinomial": draw.stateless_multinomial(
      tf.constant(_SIGNALS[:, :5]), 12, seed
    ),
    "multinomial_32": draw.stateless_multinomial(
      tf.constant(_SIGNALS[:, :5]), 4, seed, tf.int32
    ),
  }
