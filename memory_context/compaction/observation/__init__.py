"""A dated log of observations in place of old messages."""
