"""Secrets: encrypted values that stand in no text, only their names do.

`keys` encrypts, `forms` finds values in text, `secrets` keeps them, and `entry` filters a context's messages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
