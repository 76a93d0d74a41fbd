"""Replicas: what each replica of the model keeps and updates.

In: a graph and its variables. Out: what is mirrored, which updates each replica
makes itself, which replica owns what (ZeRO), and Horovod's processes.
"""
