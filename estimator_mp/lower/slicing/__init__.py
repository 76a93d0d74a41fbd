"""The batch in slices: micro-batches and replicas of a model."""
