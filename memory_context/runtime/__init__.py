"""Concurrency: no other module starts a task, plans a timer or keeps a back-off clock."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
