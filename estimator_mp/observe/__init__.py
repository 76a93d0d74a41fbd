"""Observing: plans and executed steps, for people and for checks.

In: a plan, and traces of steps. Out: tables, pictures, checks. It decides
nothing.
"""
