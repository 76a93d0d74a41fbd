"""Placement: the stage of each op.

In: ops, and rules, a saved placement, costs or a memory limit. Out: stages of
ops, as data, and the transfers between devices that follow.
"""
