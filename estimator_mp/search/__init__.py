"""The search of a mesh: mesh="auto".

In: a model_fn, its inputs and a machine. Out: configurations, the fastest
first.

ranking      configurations, priced by the simulator
auto_mesh    the work of a model_fn, read off graphs that nobody runs
choice       what a program trains with, kept with its checkpoints
"""
