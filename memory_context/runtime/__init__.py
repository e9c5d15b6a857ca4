"""Concurrency in one place: no other module starts a task, plans a timer or keeps a back-off clock.

Background      tasks beside the caller: one for each key and event loop
attempt, begin  one call in a task of its own, with a limit
Flusher         writes a buffer when it is full, after a while, or on request; retries later
Breaker         circuit breaker: closed, open, trial
Timer, PerLoop  one planned call; one value for each event loop
Unwritten       buffers that must be written before a store, an event loop or the process ends
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
