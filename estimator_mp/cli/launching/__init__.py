"""Launching: a local cluster, a process for each task, from start to end.

`launch_flags` has the program, `tasks` the tasks and the TF_CONFIG of each, and
`run_launch` starts them: in a `network` of their own, each as a `task_process`
whose `task_output` goes to a log and to the terminal, under `supervision`,
which ends them as `endings` says. A `guardian` outlives the launcher, so that
no task does. Nothing here imports TensorFlow.
"""
