"""Inputs: what a step reads of its input pipeline is on its devices before.

In: a lowered graph, and the boundary of its input. Out: the same graph in two
parts, of which one stores batches that the other takes.
"""
