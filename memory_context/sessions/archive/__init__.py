"""The archive of sessions: written in batches, read to resume a session."""
