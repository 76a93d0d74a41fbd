"""The commands of estimator-mp, such as train, plan and compare.

In: a command line. Out: an exit code, files and words for people.
"""
