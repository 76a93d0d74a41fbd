"""Replicas: what each replica of the model keeps and updates.

In: a graph and its variables. Out: what is mirrored, which updates each replica
makes itself, which replica updates what for all (ZeRO), and what Horovod does
between processes (`replicas.horovod` is public).
"""
