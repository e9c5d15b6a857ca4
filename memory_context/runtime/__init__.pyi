from .background import (
    LARGE_CHARACTERS,
    Background,
    Breaker,
    PerLoop,
    Timer,
    attempt,
    begin,
    in_own_thread,
    in_thread_if_large,
)
from .buffers import WRITE_SECONDS, Buffer, Flusher, Unwritten
from .shutdown import watch

__all__ = [
    "LARGE_CHARACTERS",
    "WRITE_SECONDS",
    "Background",
    "Breaker",
    "Buffer",
    "Flusher",
    "PerLoop",
    "Timer",
    "Unwritten",
    "attempt",
    "begin",
    "in_own_thread",
    "in_thread_if_large",
    "watch",
]
