"""Items of one scope: stored, read whole or cut, listed, searched, shared with other agents or not."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
