"""Which hosts, ports and addresses a browser may reach. Pure functions; each refusal is an error that says why."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from memory_context.foundation.errors import ConnectorError

__all__ = ["HostRules", "Target", "address_problem", "check_port", "parse_authority"]

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]{1,253}?)\.?)(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_OPEN_LOW_PORTS = (80, 443)
_CLOSED_HIGH_PORTS = frozenset(
    [
        *(2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697, 10080),  # Fetch standard
        *(1433, 1521, 2375, 3306, 5432, 5984, 6379, 9042, 9200, 11211, 27017),  # databases and containers
    ]
)
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_UNIQUE_LOCAL = IPv6Network("fc00::/7")
_IPV4_IN_LAST_BITS = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))  # NAT64, IPv4-compatible
_THIS_NETWORK = IPv4Network("0.0.0.0/8")


@dataclass(frozen=True)
class Target:
    """Where a connection should lead.

    Attributes:
        host: Lower case, without a final dot; an IPv6 address without brackets.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_authority(authority: str, default_port: int | None = None) -> Target:
    """Return host and port of an authority such as `example.org:443`.

    Raises:
        ConnectorError: It is not one, or its host is a number that only some parsers take for an address.
    """
    match = _AUTHORITY.fullmatch(authority)
    port = int(match[3]) if match and match[3] else default_port
    if match is None or port is None or not 0 < port < 65536:
        raise ConnectorError(f"{authority[:100]!r} is not a host with a port")
    host = (match[1] or match[2]).lower()
    if match[1] or _NUMBER.fullmatch(host.rsplit(".", 1)[-1]):  # the rule of the URL standard for IPv4
        try:
            host = str(IPv6Address(host) if match[1] else IPv4Address(host))
        except ValueError:
            raise ConnectorError(f"{host!r} is not a plain spelling of an address") from None
    return Target(host, port)


class HostRules:
    """Allowed hosts: `example.org`, `*.example.org` (each host below it), each also with a port (`localhost:8000`).

    None allows every host. Bad rules raise ValueError.
    """

    def __init__(self, allowed_hosts: Sequence[str] | None) -> None:
        if isinstance(allowed_hosts, str):
            raise ValueError(f"allowed_hosts={allowed_hosts!r}: give a list of hosts")
        self._rules = None if allowed_hosts is None else [_rule(one) for one in allowed_hosts]

    def check(self, target: Target) -> None:
        """Raise ConnectorError if no rule allows the target."""
        if self._rules is None:
            return
        for is_below, host, port in self._rules:
            is_host = target.host.endswith(f".{host}") if is_below else target.host == host
            if is_host and port in (None, target.port):
                return
        raise ConnectorError(f"{target} is not among the allowed hosts")


def _rule(text: str) -> tuple[bool, str, int | None]:
    is_below = text.startswith("*.")
    name = text[2:] if is_below else text
    try:
        ascii_name = name if name.isascii() else name.encode("idna").decode("ascii")
        target = parse_authority(ascii_name, 1)
    except (ConnectorError, UnicodeError):
        raise ValueError(f"allowed host {text!r}: use a host, *.host, or host:port") from None
    return is_below, target.host, target.port if target.port != 1 else None


def check_port(port: int) -> None:
    """Raise ConnectorError for ports of services that are not web servers."""
    if (port < 1024 and port not in _OPEN_LOW_PORTS) or port in _CLOSED_HIGH_PORTS:
        raise ConnectorError(f"port {port} is not a port of web servers")


def address_problem(text: str, *, allow_private: bool) -> str:
    """Return why no connection may be made to an address; empty if one may.

    Link-local, multicast, unspecified and reserved addresses and the metadata services of clouds are never allowed.
    IPv6 addresses that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) are judged by that.
    """
    address = ip_address(text)
    judged = _carried(address) if isinstance(address, IPv6Address) else address
    if judged in _METADATA:
        return f"{text} is the metadata service of a cloud"
    kind = _kind_of_4(judged) if isinstance(judged, IPv4Address) else _kind_of_6(judged)
    if kind == "private" and not allow_private:
        return f"{text} is an address of this machine or a private network, which are not allowed here"
    return f"{text} is {kind}" if kind not in ("", "private") else ""


def _carried(address: IPv6Address) -> IPv4Address | IPv6Address:
    carried = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if carried is None and int(address) > 1 and any(address in network for network in _IPV4_IN_LAST_BITS):
        carried = IPv4Address(int(address) & 0xFFFFFFFF)
    return carried or address


def _kind_of_4(address: IPv4Address) -> str:
    if address in _THIS_NETWORK:
        return "an unspecified address"
    return _kind_of_any(address) or ("a reserved address" if address.is_reserved else _if_private(address))


def _kind_of_6(address: IPv6Address) -> str:
    if kind := _kind_of_any(address):
        return kind
    if address.is_loopback or address in _UNIQUE_LOCAL:
        return "private"
    return _if_private(address) if address in _GLOBAL_UNICAST else "a reserved address"


def _kind_of_any(address: IPv4Address | IPv6Address) -> str:
    if address.is_unspecified:
        return "an unspecified address"
    if address.is_multicast:
        return "a multicast address"
    return "a link-local address" if address.is_link_local else ""


def _if_private(address: IPv4Address | IPv6Address) -> str:
    return "" if address.is_global else "private"
