"""All private names of TensorFlow and of its Estimators that we use.

Nothing else of the repository may name one. Each file says what its names are
for, and the versions on which they were tested.
"""
