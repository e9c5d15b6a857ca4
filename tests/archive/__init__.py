"""Sessions that last: archived in batches, taken up again."""
