"""Sizing: the largest model of a family that fits devices, and whether it does.

What a training step needs on each device is planned from static shapes
(`planned_memory`), the largest size is found by trying (`largest`), and
`measurement` trains the model in one process for each device.
"""
