"""Lowering: the passes that edit a graph as the plan says; nothing else does.

In: a graph and a plan. Out: the same graph, with copies, sums, updates and
order.
"""
