"""TensorFlow 1 programs, on 1.15 itself and on today's TensorFlow."""
