"""The plan: everything that is decided before a graph is edited.

In: a captured graph and a configuration. Out: an immutable plan.
"""
