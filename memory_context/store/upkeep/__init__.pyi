from .importing import ImportReport, bounded_lines
from .status import StoreStatus
from .tables import TransferError
from .upkeep import Upkeep

__all__ = ["ImportReport", "StoreStatus", "TransferError", "Upkeep", "bounded_lines"]
