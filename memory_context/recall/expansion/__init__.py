"""Decides which references a request needs, fetches them and renders them as data."""
