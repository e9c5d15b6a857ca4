"""Sessions that stay live between requests, in one process at a time.

A claim says which process holds a session: `LocalClaims` within one process, `MemoryStore.advisory_claims()` by
Postgres, `RedisClaims` by Redis.
"""

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
