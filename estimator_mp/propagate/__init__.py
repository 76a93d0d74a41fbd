"""Layouts: which tensors of a finished graph are split, and how.

In: ops with their rules and sizes, and which tensors are split at first. Out: a
layout for each tensor, and the reads of each op's parts. No op is made.
"""
