"""Rules: for each type of op, what it makes of split tensors.

In: an op and how its inputs are split. Out: a decision, as data.
"""
