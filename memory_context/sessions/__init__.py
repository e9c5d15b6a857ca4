"""What happened in a session, and how it lasts: the transcript, its archive, sessions held by a process."""
