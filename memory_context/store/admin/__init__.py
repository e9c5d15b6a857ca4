"""Administration of a store.

status      state, schema, export and import
user_stats  data of one user
prune       retention
consolidate merging and summarising one user's memory
"""
