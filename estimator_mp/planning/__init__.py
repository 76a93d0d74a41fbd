"""Plans: decisions as data, and their planners; nothing here edits a graph.

In: the graph of a step and a configuration. Out: the stages of ops, how
variables are split, the order of cells, `step_plan.StepPlan`, and reports.
`partitioner` says in which order they are made: some of its passes rewrite the
graph, and later ones read the result.
"""
