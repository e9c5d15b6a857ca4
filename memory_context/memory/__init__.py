"""Items of one scope: stored, read, searched, shared."""
