"""The pipeline as data: what a micro-batch needs and when it is where.

In: ops and their stages. Out: the slice that each micro-batch repeats, how what
leaves it is merged, the order of cells and how long that takes.
"""
