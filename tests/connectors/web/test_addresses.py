"""Rules of a browser's network boundary: hosts and addresses."""

from typing import Any

import pytest

from memory_context.connectors.web import request_filter
from memory_context.connectors.web.request_filter import RequestFilter, address_problem

PRIVATE = """
    0.1.2.3 127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 198.18.0.1 ::1 fd12::1 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a00:1 2002:7f00:1::1 2002:c0a8:101:: 2001:0:4136:e378:8000:63bf:80ff:fffe
    2001:db8::1"""
SPECIAL = """
    0.0.0.0 :: 224.0.0.1 ff02::1 255.255.255.255 240.0.0.1 169.254.169.254 fe80::1 fec0::1 ::ffff:169.254.169.254
    ::ffff:0.0.0.0 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: 64:ff9b:1::1 4000::1 168.63.129.16 100.100.100.200 fd00:ec2::254
    ::169.254.169.254 ::127.0.0.1"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_private_address_is_refused_unless_allowed(address: str) -> None:
    assert "private network" in address_problem(address, allow_private=False)
    assert address_problem(address, allow_private=True) == ""


@pytest.mark.parametrize("address", SPECIAL.split())
def test_special_address_is_refused_always(address: str) -> None:
    assert address_problem(address, allow_private=False)
    assert address_problem(address, allow_private=True)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_address_is_allowed(address: str) -> None:
    assert address_problem(address, allow_private=False) == ""


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
async def test_rule_of_hosts(
    rule: str, allowed: list[str], refused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def public(host: str) -> list[str]:
        return ["93.184.215.14"]

    monkeypatch.setattr(request_filter, "addresses_of", public)
    rules = RequestFilter([rule])
    for one in allowed:
        assert await rules._is_allowed(f"http://{one}/")
    for one in refused:
        assert not await rules._is_allowed(f"http://{one}/")
        assert rules.refused[-1] == f"{one}: it is not among the allowed hosts"


@pytest.mark.parametrize("rules", ["example.org", ["http://example.org"], ["*"], ["a/b"], [""]])
def test_bad_rule_says_what_to_use(rules: Any) -> None:
    with pytest.raises(ValueError, match=r"use a host|give a list"):
        RequestFilter(rules)


async def test_no_rule_allows_no_host() -> None:
    assert not await RequestFilter([])._is_allowed("https://example.org/")
