"""Calls: the functions that an op runs, and their ops in the place of calls."""
