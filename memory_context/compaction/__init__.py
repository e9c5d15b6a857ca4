"""Compactors: pure, deterministic functions that reduce a tool result to status, description, facts and an excerpt
within token limits.

`analyzers` covers sorts of content, `compose` the common rules.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
