"""Generalized divisive normalization of tf-slim, with its gradient.

tf-slim 1.1.0 lacks the line that registers the gradient of its lower bound,
`GDN._lower_bound_grad`. Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import tensorflow as tf
from tf_slim import GDN, gdn

tf.RegisterGradient("GDNLowerBound")(GDN._lower_bound_grad)

__all__ = ["GDN", "gdn"]
