"""The model axis: which tensors are split over devices, and how ops keep it so.

In: ops in the order of the graph, and how variables are split. Out: for each op
that reads something split, what it is on each device (`decisions`), by rules
that slices of the batch go by, too; nothing here edits a graph.
"""
