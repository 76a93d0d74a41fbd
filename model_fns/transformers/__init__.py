"""Transformers: decoders and encoders, with plain layers or with experts.

In: sizes. Out: model_fns that know no devices, and are sharded as they are.
"""
