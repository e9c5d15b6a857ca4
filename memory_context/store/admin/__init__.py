"""Administration of a store.

status      state, schema, export and import
user_stats  data of one user
prune       retention
consolidate merging and summarising one user's memory
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
