"""tf_keras models as model_fns.

In: a compiled model, or a function that makes one. Out: a model_fn.
"""
