"""Names that modules of TensorFlow 1's time import from private places."""
