"""The GPUs of this machine: how much memory they have, and several of one.

In: how many GPUs a mesh needs, and the memory of each. Out: how many of them
are on each GPU of this machine, and the settings of sessions that make them.
"""
