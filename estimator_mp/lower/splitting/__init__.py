"""Splitting: the ops that read split tensors are made in parts.

In: a graph and the decisions of `model_axis`. Out: the same graph, in which
parts on the devices of the model axis do the work of split ops.
"""
