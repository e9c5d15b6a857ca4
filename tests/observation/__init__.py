"""Observations: what is read, written, kept and found of them."""
