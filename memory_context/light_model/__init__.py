"""Guarded calls of a small model, for decisions that have a stand-in, and the bill of those calls."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
