"""What a turn needs of the store: which references to open, what to search for; decided, read, fenced as data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
