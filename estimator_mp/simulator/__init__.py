"""The simulator: the time and the memory of a training step, before it runs.

step            a step of given stages, on a machine
sums            how long replicas take to sum gradients
lowered_step    the stages of a graph that is sharded
"""
