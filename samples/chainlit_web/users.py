"""Who may log in, and who of them is an operator.

Without CHAT_USERS there are demo logins, for a server on one's own machine only. In production, replace `login` in
`app.py` by your identity provider: Chainlit has callbacks for OAuth and for headers of a proxy.
"""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory_context.surfaces.access.gate import is_loopback

__all__ = ["USERS_ENV", "Users"]

USERS_ENV = "CHAT_USERS"

_DEMO_USERS = "ada:ada:operator, grace:grace"


@dataclass(frozen=True)
class Users:
    """The passwords of people who may log in. Operators may paste agents, which can run code on the server."""

    passwords: Mapping[str, str] = field(repr=False)
    operators: frozenset[str]
    are_demo: bool

    @classmethod
    def from_env(cls) -> "Users":
        """Return the users of CHAT_USERS (`name:password` or `name:password:operator`, with commas), or the demo's.

        Raises:
            ValueError: CHAT_USERS cannot be read; its text is not shown.
        """
        given = os.environ.get(USERS_ENV, "").strip()
        passwords: dict[str, str] = {}
        operators: set[str] = set()
        for number, entry in enumerate((given or _DEMO_USERS).split(","), 1):
            name, _, password = entry.strip().partition(":")
            if password.endswith(":operator"):
                password = password.removesuffix(":operator")
                operators.add(name)
            if not name or not password:
                raise ValueError(
                    f"{USERS_ENV}: entry {number} cannot be read; write name:password or name:password:operator, with "
                    "commas between entries"
                )
            passwords[name] = password
        return cls(passwords, frozenset(operators), not given)

    def knows(self, name: str, password: str) -> bool:
        """Return whether somebody may log in; it takes as long for a name that is not there."""
        expected = self.passwords.get(name, "\0")
        return hmac.compare_digest(expected.encode(), password.encode()) and name in self.passwords

    @property
    def login_hint(self) -> str:
        """A line for the login page."""
        return "Demo logins: ada / ada (operator), grace / grace." if self.are_demo else ""

    def check_host(self, host: str) -> None:
        """Raise ValueError if others can reach a server with demo logins."""
        if self.are_demo and not is_loopback(host):
            raise ValueError(f"{host} can be reached by others, and everybody knows the demo logins: set {USERS_ENV}")
