from .admin import StoreAdmin
from .prune import PruneProgress, PruneReport
from .status import StoreStatus
from .user_stats import Forgettable, UserStats

__all__ = ["Forgettable", "PruneProgress", "PruneReport", "StoreAdmin", "StoreStatus", "UserStats"]
