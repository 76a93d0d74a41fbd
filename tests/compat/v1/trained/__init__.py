"""Models whose checkpoints 1.15.5 has written; ../checkpoints.py says how."""
