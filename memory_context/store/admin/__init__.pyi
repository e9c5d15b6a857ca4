from .consolidate import ConsolidationReport
from .prune import PruneReport
from .status import StoreAdmin, StoreStatus
from .user_stats import Forgettable, UserStats

__all__ = [
    "ConsolidationReport",
    "Forgettable",
    "PruneReport",
    "StoreAdmin",
    "StoreStatus",
    "UserStats",
]
