"""Concurrency, in one place: the package begins no task, plans no timer and counts no back-off elsewhere.

Background      work beside the caller: one task for each key and event loop
attempt, begin  one call in a task of its own, with an end
Flusher         a buffer's writes: when it is full, after a while, on request; kept and retried later when they fail
Breaker         closed, open, trial: what failed is left alone for a while
Timer, PerLoop  one planned call; one value for each event loop
Unwritten       buffers to be written before a store is closed, an event loop ends, or the process does
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
