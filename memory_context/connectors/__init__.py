"""Connectors: parts of an agent's environment that tell what an action changed, and what there is now."""
