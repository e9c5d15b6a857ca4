"""Claims and saved states in Redis, also where a pooler rules out advisory locks. redis is imported lazily."""

from .claims import RedisClaims
from .states import RedisStates

__all__ = ["RedisClaims", "RedisStates"]
