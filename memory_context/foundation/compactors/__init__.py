"""Compactors: pure, deterministic functions that reduce a tool result to status, description, facts and an excerpt
within token limits.

`analyzers` covers sorts of content, `compose` the common rules.
"""
