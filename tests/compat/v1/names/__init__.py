"""The public names of TensorFlow 1.15.5, against what compat shows of them."""
