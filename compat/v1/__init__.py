"""TensorFlow 1.15's `tf` for the modules of one program.

`compat.install(v1=True)` and `estimator-mp-run --v1` use it: what the program
imports as `tensorflow` is a view of today's TensorFlow with the names, version
and behaviour of 1.15. TensorFlow itself and all other packages go on importing
the real one.
"""
