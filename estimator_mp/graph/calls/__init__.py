"""Calls: ops of a slice as functions, one definition for all its clones.

`functions` says which functions an op runs, and copies them for slices.

In: ops, which are grouped (`grouping`), each group of which may be computed at
once. Out: a definition with a call in the place of each group (`contraction`),
and the functions that are called.
"""
