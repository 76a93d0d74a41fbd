"""Training in slices of the batch, of a graph that is of the whole batch."""
