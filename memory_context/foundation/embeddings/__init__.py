"""Embedders of texts; their libraries are imported on first use."""
