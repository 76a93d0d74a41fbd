"""Retrieval: which of very many items belong to a query.

`two_tower` makes the model_fn, of `towers.Tower`s or functions of yours;
`export` writes what serves it, and `index` finds the nearest items exactly.
"""
