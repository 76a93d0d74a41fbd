"""Reading and editing one `tf.Graph`, whatever it is for.

In: ops. Out: what is known of ops by their types (`op_types`, the one table),
what leads to what (`traversal`, `control_flow`), which ops share a device
(`colocation`) and which one that is (`device_assignment`), what they do with
variables and functions; and copies of ops (`clones`). Nothing here knows of
replicas, schedules or losses.
"""
