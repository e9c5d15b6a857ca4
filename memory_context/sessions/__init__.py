"""Sessions that stay live between requests, in one process at a time, and go on in another.

Promises: a session has one holder and one live object at a time; who wants it waits in line, with a bound; what it
knows is durable before it leaves. Which process a session belongs to, claims say: `LocalClaims` within one process,
`MemoryStore.advisory_claims()` by Postgres, `RedisClaims` by Redis.
"""

from .cache import CacheStats, SessionCache
from .claims import Claims, LocalClaims, SessionKey, SessionStates
from .redis import RedisClaims, RedisStates
from .seat import LiveSession

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
