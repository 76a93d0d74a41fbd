"""Comparison: a sharded program beside the plain one, step by step.

In: a model_fn, an input_fn and a configuration. Out: where the two part.
"""
