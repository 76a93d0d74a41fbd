"""The pipeline as data: what a micro-batch needs and when it is where.

In: ops, their stages, and a schedule. Out: the slice that each micro-batch
repeats, how what leaves it is merged, what each pass through a stage begins and
ends with, what is computed again, and how long a schedule takes.
"""
