"""Collectives: sums over devices.

In: a tensor on each device. Out: their sum on each device or on one, made by a
named algorithm, whole or in buckets, in full or compressed.
"""
