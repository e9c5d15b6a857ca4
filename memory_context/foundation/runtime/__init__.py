"""Concurrency: no other module starts a task, plans a timer or keeps a back-off clock."""
