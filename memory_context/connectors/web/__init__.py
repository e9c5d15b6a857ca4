"""The web connector: pages that an agent reads as trees of elements and acts on, behind a boundary of the network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
