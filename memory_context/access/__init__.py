"""Access control of all servers, as plain ASGI: host and origin checks, body limits, trusted proxies, bearer tokens."""

from .bodies import BodyLimits, BodyRefusal, BoundedJson, ClientGone, check_json, off_the_loop, read_body, replayed
from .gate import Gate, GateRules, ProxyRefusal, Tokens, TrustedProxy, UsageError, is_loopback

__all__ = [
    "BodyLimits",
    "BodyRefusal",
    "BoundedJson",
    "ClientGone",
    "Gate",
    "GateRules",
    "ProxyRefusal",
    "Tokens",
    "TrustedProxy",
    "UsageError",
    "check_json",
    "is_loopback",
    "off_the_loop",
    "read_body",
    "replayed",
]
