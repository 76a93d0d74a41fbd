"""Programs that use packages of TensorFlow 1's time, one module per package.

Each is an unedited TensorFlow 1.15 program for Python 3.7 and later. Its public
functions are models: they take a directory and return a `harness.Model`.
"""
