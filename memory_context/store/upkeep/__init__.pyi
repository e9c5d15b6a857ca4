from .importing import ImportReport, bounded_lines
from .status import MigrationState, StoreStatus
from .tables import TransferError
from .upkeep import Upkeep

__all__ = ["ImportReport", "MigrationState", "StoreStatus", "TransferError", "Upkeep", "bounded_lines"]
