"""What is done to a store as a whole: how it is, its schema, and taking everything of a user out of it or into it.

upkeep     the operations
status     what there is and what waits, through whatever login and schema
lines      the file that an export writes
records    what its lines hold, by the table their row is of
exporting  out of one snapshot, in bounded memory
importing  checked whole before anything is stored
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
