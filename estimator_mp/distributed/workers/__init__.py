"""Workers that train, each a model of its own, beside parameter servers.

In: an Estimator, and a cluster with parameter servers. Out: this task's part of
the run, as chief, worker or parameter server.
"""
