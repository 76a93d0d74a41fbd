"""The commands that serve stages, and that send examples through them."""
