"""What a text holds: its words and terms, its definitions.

Below search, compaction and expansion, so that all of them see the same words.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
