"""The pipeline as data: the ops and the times of each micro-batch's passes.

In: ops, their stages, and a schedule. Out: the first and last ops of each pass
through a stage, the ops that are recomputed, the gradients of weights that
several micro-batches multiply at once, and the makespan of a schedule.
"""
