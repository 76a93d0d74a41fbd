"""Several machines at work: the tasks of a cluster train one sharded model.

In: an Estimator and TF_CONFIG. Out: servers in all tasks, a chief that drives
the mesh, an evaluator beside it, and a run that outlives the loss of tasks.
"""
