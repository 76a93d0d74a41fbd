"""Reading and editing one `tf.Graph`, whatever it is for.

In: ops. Out: traits of ops by their types (`op_types`, the one table), ways
between ops (`traversal`, `control_flow`), which ops share a device
(`colocation`) and which one that is (`device_assignment`), their variables and
functions; and copies of ops (`clones`). Nothing here knows of replicas,
schedules or losses.
"""
