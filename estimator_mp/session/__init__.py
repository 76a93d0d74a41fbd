"""Around the steps: the Estimator's settings, checkpoints and exports.

In: a configuration. Out: a RunConfig whose sessions hold and obey the mesh, in
one process or a cluster, and that go on with the input where a checkpoint left
it; exports that name no device.
"""
