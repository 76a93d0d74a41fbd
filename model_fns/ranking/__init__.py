"""Models that rank by the probability of a click, with tables of embeddings."""
