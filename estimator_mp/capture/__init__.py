"""Capture: the call of model_fn, on the whole batch.

In: features, labels and a model_fn. Out: which inputs have examples and where
slices of them begin, and a checked graph of the whole batch.
"""
