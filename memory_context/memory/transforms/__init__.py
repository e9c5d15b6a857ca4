"""Transforms of stored content for a reader: ranges, matches, values, summaries."""
