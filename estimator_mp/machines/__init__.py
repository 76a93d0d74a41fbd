"""Machines: what devices compute, hold and send, as small files.

machine   devices and links, and the file that describes them
measure   those of this machine
*.toml    machines by name, each figure with its source
"""
