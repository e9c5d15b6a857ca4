"""What is done to a store as a whole: how it is, its schema, and taking everything of a user out of it or into it.

upkeep     the operations
status     what there is and what waits, through whatever login and schema
tables     what travels in an export, in which order
records    one line of it
exporting  out of one snapshot, in bounded memory
importing  checked whole before anything is stored
"""

from .importing import ImportReport, bounded_lines
from .status import MigrationState, StoreStatus
from .tables import TransferError
from .upkeep import Upkeep

__all__ = ["ImportReport", "MigrationState", "StoreStatus", "TransferError", "Upkeep", "bounded_lines"]
