"""The commands of estimator-mp, such as train, inspect and compare.

In: a command line. Out: an exit code, files and words for people.
"""
