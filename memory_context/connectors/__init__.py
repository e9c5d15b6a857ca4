"""Connectors: parts of an agent's environment that tell what an action changed, and what there is now."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
