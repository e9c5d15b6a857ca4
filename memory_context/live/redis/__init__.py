"""Claims and saved states in Redis: for many processes, also where a pooler rules out advisory locks.

Needs the extra: `pip install 'memory-context[redis]'`; importing this package does not import redis.
"""

from .claims import RedisClaims
from .states import RedisStates

__all__ = ["RedisClaims", "RedisStates"]
