"""Lowering: the passes that edit a graph as a plan says.

In: a graph and a plan. Out: the same graph, with copies, sums, updates and
order. Besides it only `graph` edits graphs: it inlines calls and sets devices.
"""
