"""The pipeline as data: what a micro-batch needs and when it is where.

In: ops, their stages, and a schedule. Out: what each pass through a stage
begins and ends with, what is computed again, which gradients of weights several
micro-batches multiply at once, and how long a schedule takes.
"""
