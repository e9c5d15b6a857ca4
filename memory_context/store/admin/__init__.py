"""A store as its operator sees it: how it is, its schema, what each user has in it, and what is pruned.

status      a store as a whole: its state and schema, export and import
user_stats  what there is of one user
prune       retention
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
