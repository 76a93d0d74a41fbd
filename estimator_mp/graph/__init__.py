"""Reading and editing one `tf.Graph`, whatever it is for.

In: ops. Out: what is known of ops by their types, what leads to what, which ops
share a device; and copies of ops. Nothing here knows of stages or replicas.
"""
