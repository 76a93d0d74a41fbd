"""Comparison: a user's model_fn, plain and sharded, without an Estimator.

In: a model_fn, its inputs, and a configuration. Out: the differences of the
sharded program, step by step; or the contents of each stage.
"""
