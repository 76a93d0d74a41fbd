"""Calls: what functions an op runs, and what stands for them in slices.

`functions` says which functions an op runs, and copies them for slices;
`inlining` puts their ops in the place of calls.
"""
