"""The options of a user, as data, flags and JSON; nothing of a graph.

In: flags, keyword arguments, JSON, files. Out: a checked `ShardingConfig`, and
what it has as data: the schedule, a placement, measured costs. The tables of
what options choose from are here, too: schedules, placements, algorithms.
"""
