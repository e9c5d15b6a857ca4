"""Long-term notes: one Markdown text for each agent and user, edited by sections, with versions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
