"""Capture: the call of model_fn, on the first slice of the batch.

In: features, labels and a model_fn. Out: the slices of the batch, the requests
for gradients as they come, and a checked graph of the first slice.
"""
