"""Model_fns that split a batch, or layers, over devices by hand."""
