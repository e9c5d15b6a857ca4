"""Bearer tokens: the users of a server, and the port that only this machine reaches.

Promises: a token is compared in constant time and never shown; what is set wrongly is told before a port is open.
"""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from ..identifiers import checked_identifier

__all__ = ["Tokens", "UsageError", "is_loopback"]


class UsageError(Exception):
    """The server cannot be run as it was asked to; the text says what to give instead."""


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host, such as `127.0.0.1`, `::1`, `[::1]` or `localhost`."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Tokens:
    """The users of a server, each with bearer tokens of their own.

    Attributes:
        users_by_token: Whose a token is.
    """

    users_by_token: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_environment(cls, variable: str) -> "Tokens":
        """Return the `user:token` pairs of an environment variable, with spaces or commas between them.

        Raises:
            UsageError: It is not set, a pair is none, two users have one token, or a user's id is none.
        """
        remedy = f"--token-env {variable}: set it to user:token pairs with spaces or commas between them"
        users: dict[str, str] = {}
        for pair in os.environ.get(variable, "").replace(",", " ").split():
            user, _, token = pair.partition(":")
            if not user or not token:
                raise UsageError(remedy)
            if users.setdefault(token, user) != user:
                raise UsageError(f"{remedy}; {users[token]} and {user} have the same token there")
            try:
                checked_identifier("user", user)
            except ValueError as error:
                raise UsageError(f"{remedy}; {error}") from None
        if not users:
            raise UsageError(remedy)
        return cls(users)

    @property
    def users(self) -> frozenset[str]:
        """Who has a token."""
        return frozenset(self.users_by_token.values())

    def user_of(self, authorization: str) -> str | None:
        """Return whose token an Authorization header brings, `Bearer <token>`; None if it is nobody's.

        Args:
            authorization: The header's value, its bytes read as latin-1, as servers hand it over.
        """
        scheme, _, given = authorization.partition(" ")
        data = given.strip().encode("latin-1", "replace")
        # all are compared, so that the time taken tells nothing about any of them
        found = [user for token, user in self.users_by_token.items() if hmac.compare_digest(os.fsencode(token), data)]
        return found[0] if found and scheme.lower() == "bearer" else None
