"""What survives of a result beside its placeholder.

A compactor reads a result and says, within limits of tokens, whether it succeeded, what it is, which facts are worth
keeping, and which passages to show first when it is too long to be shown whole. It is pure and deterministic. What
differs between sorts of content is in `analyzers`; what is common to them, in `compose`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
