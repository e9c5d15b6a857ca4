"""Append-only messages and decisions of a session."""
