"""Everything of a user, taken out of a store or into it.

lines     the file that an export writes
records   what its lines hold, by the table their row is of
exporter  out of one snapshot, in bounded memory
importer  checked whole before anything is stored
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
