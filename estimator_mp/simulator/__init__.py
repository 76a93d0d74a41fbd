"""The simulator: the time and the memory of a training step, before it runs.

In: a graph, its plan and a machine. Out: when each cell runs, what bounds the
step, and what each device holds and sends.

step            a step of given stages, on a machine
sums            how long replicas take to sum gradients
lowered_step    the stages of a graph that is sharded
live_bytes      the bytes that are alive, as ops run in an order
workload        the stages of a plain graph, for any cut
"""
