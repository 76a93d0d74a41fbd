"""Sessions of a sharded run: what the Estimator is told, and what it restores.

In: a configuration. Out: a RunConfig whose sessions hold and obey the mesh, in
one process, and that go on with the input where a checkpoint left it.
"""
