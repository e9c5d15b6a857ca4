"""Sessions that stay live between requests, each in one process at a time, as claims decide."""

from .cache import CacheStats, SessionCache
from .claims import Claims, LocalClaims, SessionKey, SessionStates
from .entry import LiveSession
from .redis import RedisClaims, RedisStates

__all__ = [
    "CacheStats",
    "Claims",
    "LiveSession",
    "LocalClaims",
    "RedisClaims",
    "RedisStates",
    "SessionCache",
    "SessionKey",
    "SessionStates",
]
