"""Schedules: in which order each device runs the cells of its stages.

In: the name of an order and some numbers. Out: cells in rows, one for each
device (`schedule`), as the papers say (`algorithms`), under the names that the
option takes (`orders`), each of them once and in an order that ends (`checks`).
"""
