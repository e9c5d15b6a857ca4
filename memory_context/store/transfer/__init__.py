"""Export and import of a user's data.

lines     the file format
records   models of its lines
exporter  from one snapshot, in bounded memory
importer  validated before anything is stored
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
