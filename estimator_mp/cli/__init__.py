"""The commands: train, inspect, trace, compare.

In: a command line. Out: an exit code, files and words for people.
"""
