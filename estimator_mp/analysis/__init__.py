"""Analysis: sizes of the tensors of a finished graph, before the plan.

In: the ops of a graph, and the inputs that have examples. Out: the sizes of all
tensors, and the values of shapes, as polynomials over the number of examples.
"""
