"""Names of tf.contrib.cluster_resolver."""

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

ClusterResolver = tf.distribute.cluster_resolver.ClusterResolver
SimpleClusterResolver = tf.distribute.cluster_resolver.SimpleClusterResolver
TFConfigClusterResolver = tf.distribute.cluster_resolver.TFConfigClusterResolver
TPUClusterResolver = tf.compat.v1.distribute.cluster_resolver.TPUClusterResolver
UnionClusterResolver = tf.distribute.cluster_resolver.UnionResolver
