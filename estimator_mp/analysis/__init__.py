"""What is known of a finished graph before anything is decided.

In: the ops of a graph, and which inputs have examples. Out: the sizes of all
tensors, and the values of shapes, as polynomials over the number of examples.
"""
