"""Replicas: the variables that each replica of the model keeps and updates.

In: a graph and its variables. Out: the mirrored variables, the updates that
each replica makes itself, the replica that updates a variable for all (ZeRO),
and Horovod's ops between processes (`replicas.horovod` is public).
"""
