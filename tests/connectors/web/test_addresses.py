"""Rules of a browser's network boundary: hosts, ports and addresses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.connectors.web.addresses import HostRules, Target, address_problem, check_port, parse_authority
from memory_context.foundation.errors import ConnectorError


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "::1"),
        *("fd12::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1"),
        *("2002:c0a8:101::", "::127.0.0.1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1"),
    ],
)
def test_private_address_is_refused_unless_allowed(address: str) -> None:
    assert "private network" in address_problem(address, allow_private=False)
    assert address_problem(address, allow_private=True) == ""


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "169.254.169.254"),
        *("fe80::1", "fec0::1", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"),
        *("64:ff9b:1::1", "4000::1", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "::169.254.169.254"),
    ],
)
def test_special_address_is_refused_always(address: str) -> None:
    assert address_problem(address, allow_private=False)
    assert address_problem(address, allow_private=True)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_address_is_allowed(address: str) -> None:
    assert address_problem(address, allow_private=False) == ""


@pytest.mark.parametrize(
    "authority",
    [
        *("0x7f.1:80", "2130706433:80", "127.1:80", "0177.0.0.1:80", "1.2.3.0x4:80", "127.0.0.1.0x:80", "[::1%lo]:80"),
        *("[127.0.0.1]:80", "user@host:80", "a b:80", "host:0", "host:65536", "host:", "", ":80", "host", "ho\nst:80"),
        *("[::1:80", "münchen.de:80", "host:80:80", "host/path:80", "127。0。0。1:80", f"{'a' * 254}:80"),
    ],
)
def test_odd_spelling_of_a_host_is_refused(authority: str) -> None:
    with pytest.raises(ConnectorError):
        parse_authority(authority)


def test_host_is_read_in_one_way() -> None:
    assert parse_authority("Example.ORG.:443") == Target("example.org", 443)
    assert parse_authority("[2606:2800::0:1]", 80) == Target("2606:2800::1", 80)
    assert parse_authority("1.2.3.4", 80) == Target("1.2.3.4", 80)
    assert str(Target("::1", 80)) == "[::1]:80"


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_every_authority_is_a_target_or_refused(text: str) -> None:
    try:
        target = parse_authority(text)
    except ConnectorError:
        return
    assert parse_authority(str(target)) == target


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        ("example.org", ["example.org:443", "EXAMPLE.org.:80"], ["a.example.org:443", "notexample.org:443"]),
        ("*.example.org", ["a.example.org:443", "a.b.example.org:80"], ["example.org:443", "a.example.org.evil:80"]),
        ("localhost:8000", ["localhost:8000"], ["localhost:8001", "localhost:80"]),
        ("münchen.de", ["xn--mnchen-3ya.de:443"], ["munchen.de:443"]),
        ("[::1]", ["[::1]:80"], ["[::2]:80"]),
    ],
)
def test_rule_of_hosts(rule: str, allowed: list[str], refused: list[str]) -> None:
    rules = HostRules([rule])
    for one in allowed:
        rules.check(parse_authority(one))
    for one in refused:
        with pytest.raises(ConnectorError, match="not among the allowed hosts"):
            rules.check(parse_authority(one))


@pytest.mark.parametrize("rules", ["example.org", ["http://example.org"], ["*"], ["a/b"], [""]])
def test_bad_rule_says_what_to_use(rules: Any) -> None:
    with pytest.raises(ValueError, match=r"use a host|give a list"):
        HostRules(rules)


def test_no_rule_allows_nothing_and_no_rules_all() -> None:
    HostRules(None).check(Target("example.org", 443))
    with pytest.raises(ConnectorError):
        HostRules([]).check(Target("example.org", 443))


@pytest.mark.parametrize("port", [22, 25, 110, 445, 5432, 6000, 6379, 10080])
def test_port_of_another_service_is_refused(port: int) -> None:
    with pytest.raises(ConnectorError, match=f"port {port}"):
        check_port(port)
    for web in (80, 443, 3000, 8000, 8080, 8443):
        check_port(web)
