"""The options of a user, as data, flags and JSON; nothing of a graph.

In: flags, keyword arguments, JSON, files. Out: a checked `ShardingConfig`, with
a schedule, a placement and measured costs as data. The tables that options
choose from are here, too: schedules, placements, algorithms.
"""
