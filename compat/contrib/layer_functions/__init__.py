"""The functions of tf.contrib.layers, written anew."""
