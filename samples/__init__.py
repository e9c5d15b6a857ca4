"""Samples of `memory_context`, a path to learn by; README.md says where to begin."""
