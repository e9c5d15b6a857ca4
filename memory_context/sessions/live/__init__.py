"""Sessions that stay live between requests, each in one process at a time, as claims decide."""
