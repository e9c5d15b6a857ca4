"""Guarded calls of a small model for decisions with a fallback."""
