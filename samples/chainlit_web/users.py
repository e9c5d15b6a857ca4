"""Who may log in, and who of them is an operator.

Without CHAT_USERS there are demo logins, for a server on one's own machine only. In production, replace `login` by your
identity provider: Chainlit has callbacks for OAuth and for headers of a proxy.
"""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

__all__ = ["USERS_ENV", "Users"]

USERS_ENV = "CHAT_USERS"

_DEMO_USERS = "ada:ada:operator, grace:grace"
_NOBODY = "\0"


@dataclass(frozen=True)
class Users:
    """The people who may log in.

    Attributes:
        passwords: By user name.
        operators: Who may paste agents, which can run code on the server.
        are_demo: Whether these are the demo logins, which everybody knows.
    """

    passwords: Mapping[str, str] = field(repr=False)
    operators: frozenset[str]
    are_demo: bool

    @classmethod
    def from_env(cls) -> "Users":
        """Return the users of CHAT_USERS, or the demo's.

        It holds `name:password` or `name:password:operator`, with commas between.

        Raises:
            ValueError: CHAT_USERS cannot be read; its text is not shown.
        """
        given = os.environ.get(USERS_ENV, "").strip()
        passwords: dict[str, str] = {}
        operators: set[str] = set()
        for number, entry in enumerate((given or _DEMO_USERS).split(","), 1):
            name, _, rest = entry.strip().partition(":")
            password, colon, role = rest.rpartition(":")
            if colon and role == "operator":
                operators.add(name)
            else:
                password = rest
            if not name or not password:
                raise ValueError(
                    f"{USERS_ENV}: entry {number} cannot be read; write name:password or name:password:operator, with "
                    "commas between entries"
                )
            passwords[name] = password
        return cls(passwords, frozenset(operators), not given)

    def knows(self, name: str, password: str) -> bool:
        """Return whether somebody may log in; it takes as long for a name that is not there."""
        expected = self.passwords.get(name, _NOBODY)
        return hmac.compare_digest(expected.encode(), password.encode()) and name in self.passwords

    @property
    def login_hint(self) -> str:
        """What the login page and the terminal say; empty unless these are the demo logins."""
        return "\n".join(["Demo logins (name / password):", *self.demo_logins]) if self.are_demo else ""

    @property
    def demo_logins(self) -> list[str]:
        """The demo logins, to be shown; empty if these are not."""
        if not self.are_demo:
            return []
        return [
            f"{name} / {password}{'  (operator)' if name in self.operators else ''}"
            for name, password in self.passwords.items()
        ]

    def check_host(self, host: str) -> None:
        """Refuse to serve demo logins where others can reach them.

        Raises:
            ValueError: They can.
        """
        if self.are_demo and not _is_this_machine(host):
            raise ValueError(f"{host} can be reached by others, and everybody knows the demo logins: set {USERS_ENV}")

    def is_operator(self, name: str) -> bool:
        """Return whether somebody may paste agents; asked when they do, not when they logged in."""
        return name in self.operators


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
