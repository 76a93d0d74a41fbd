"""The commands: train, inspect, trace, compare, predict, capacity, launch.

In: a command line. Out: an exit code, files and words for people.
"""
