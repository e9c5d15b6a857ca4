from .background import LARGE_CHARACTERS, Background, PerLoop, Timer, attempt, begin, in_thread_if_large
from .breaker import Breaker
from .flusher import Flusher
from .unwritten import WRITE_SECONDS, Buffer, Unwritten

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
    "in_thread_if_large",
]
