"""Sessions: the transcript, its archive in batches, and live sessions with the claims of processes."""
