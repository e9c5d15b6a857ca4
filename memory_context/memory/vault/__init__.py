"""Secrets: encrypted values of which texts have the names only."""
