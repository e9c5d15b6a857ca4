"""Samples of `memory_context`; README.md says where to begin."""
