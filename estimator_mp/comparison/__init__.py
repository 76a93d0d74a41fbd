"""Comparison: what becomes of a user's model_fn, built outside of an Estimator.

In: a model_fn, what it is fed, and a configuration. Out: where the sharded
program parts from the plain one, step by step; or what each stage would hold.
"""
