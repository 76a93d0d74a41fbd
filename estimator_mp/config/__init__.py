"""What a user says: options as data, flags and JSON; nothing of a graph.

In: flags, keyword arguments, JSON. Out: a checked `ShardingConfig`, the
order of cells (a schedule), and the session's settings.
"""
