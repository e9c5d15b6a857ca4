from .importing import ImportReport, bounded_lines
from .lines import TransferError
from .status import StoreStatus
from .upkeep import Upkeep

__all__ = ["ImportReport", "StoreStatus", "TransferError", "Upkeep", "bounded_lines"]
