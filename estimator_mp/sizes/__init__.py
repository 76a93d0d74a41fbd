"""Sizes of dimensions, as numbers or as polynomials over those not known."""
