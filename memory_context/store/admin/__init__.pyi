from .consolidate import ConsolidationReport
from .prune import PruneProgress, PruneReport
from .status import StoreAdmin, StoreStatus
from .user_stats import Forgettable, UserStats

__all__ = [
    "ConsolidationReport",
    "Forgettable",
    "PruneProgress",
    "PruneReport",
    "StoreAdmin",
    "StoreStatus",
    "UserStats",
]
