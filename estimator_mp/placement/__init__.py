"""Placement: which stage each op is on.

In: ops, and rules, a saved placement, costs or a memory limit. Out: stages of
ops, as data, and what devices send each other then.
"""
