"""The context of an agent: `MemoryContext`, and how applications and component data make one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
