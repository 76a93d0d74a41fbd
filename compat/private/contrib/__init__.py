"""What compat.contrib needs of TensorFlow's private names, by subject."""
