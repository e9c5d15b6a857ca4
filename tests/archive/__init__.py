"""Sessions that last: archived in batches, resumed."""
