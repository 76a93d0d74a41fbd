"""The search of a mesh: mesh="auto".

ranking      configurations, priced by the simulator, the fastest first
auto_mesh    the work of a model_fn, for the search
"""
