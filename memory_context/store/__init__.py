"""The store: what keeps content durable, exact and apart, and the only package that knows SQL and the driver.

Promises: a key is handed out only after its row has committed; every str comes back identical; one user never reads
another's rows, by row-level security and under a login that owns nothing; no read shows what is private to another
scope of the user; whatever goes wrong arrives as a `StoreError`, `StoreUnavailableError` when trying again can help.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
