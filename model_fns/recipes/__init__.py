"""The recipes of the train command: models with their data, one a file.

`catalogue` has their names and the flags that each has other defaults for; it
does not import TensorFlow. `recipe` says what a recipe is.
"""
