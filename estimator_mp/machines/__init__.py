"""Machines: what devices compute, hold and send, as small files.

In: a file, a name, or this machine. Out: the rates of devices and of links.

machine   devices and links, and the file that describes them
measure   those of this machine
*.toml    machines by name, each figure with its source
"""
