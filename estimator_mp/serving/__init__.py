"""Serving: a SavedModel for each stage, and the chain of them.

In: a trained Estimator whose model is sharded. Out: a folder with a SavedModel
for each stage, and a file that chains them; a server of one stage; a client
that sends requests through all of them.
"""
