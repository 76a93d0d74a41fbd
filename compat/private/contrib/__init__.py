"""TensorFlow's private names that compat.contrib needs, by subject."""
