"""Several machines, as plain data: the tasks of a cluster, and their devices.

In: TF_CONFIG, which `tf.estimator` reads, too. Out: the task of this process,
the tasks that hold the mesh, and the names of its devices; free ports, for
tasks that are all on this machine. TensorFlow is not needed.
"""
