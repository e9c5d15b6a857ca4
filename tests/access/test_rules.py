"""The gate's rules on public names, and whom a header may speak for."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from memory_context.surfaces.access.gate import Gate, GateRules, ProxyRefusal, TrustedProxy, UsageError

PUBLIC = GateRules(("chat.example.org", "other.example.org:8443"), ("https://app.example.org",))


def scope(headers: dict[str, str], *, method: str = "POST", server: str = "10.0.0.5", peer: str = "10.0.0.9") -> Any:
    """Return the scope of a request."""
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "headers": raw, "server": (server, 80), "client": (peer, 5000)}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "chat.example.org"}, None),
        ({"Host": "Chat.Example.Org."}, None),
        ({"Host": "chat.example.org:8000"}, None),
        ({"Host": "other.example.org:8443"}, None),
        ({"Host": "other.example.org"}, 421),
        ({"Host": "10.0.0.5:8000"}, None),  # the address that the connection came in on
        ({"Host": "10.0.0.6:8000"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "chat.example.org/x"}, 421),
        ({"Host": "chat.example.org", "Origin": "https://chat.example.org"}, None),
        ({"Host": "chat.example.org:8000", "Origin": "https://chat.example.org"}, None),  # a proxy added its port
        ({"Host": "127.0.0.1:8000", "Origin": "https://chat.example.org"}, None),  # a proxy replaced the name
        ({"Host": "chat.example.org", "Origin": "https://chat.example.org:3000"}, 403),
        ({"Host": "chat.example.org", "Origin": "ftp://chat.example.org"}, 403),
        ({"Host": "chat.example.org", "Origin": "https://app.example.org", "Sec-Fetch-Site": "same-site"}, None),
        ({"Host": "chat.example.org", "Origin": "https://app.example.org.evil.example"}, 403),
        ({"Host": "chat.example.org", "Origin": "https://chat.example.org", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "chat.example.org", "Cookie": "a=b"}, 403),
        ({"Host": "chat.example.org", "Cookie": "a=b", "Authorization": "Bearer x"}, None),
        ({"Host": "chat.example.org", "Cookie": "a=b", "Origin": "https://chat.example.org"}, None),
        ({"Host": "localhost:8000", "Cookie": "a=b"}, None),
    ],
)
def test_public_names_are_listed_and_a_cookie_alone_does_not_write(headers: dict[str, str], status: int | None):
    refusal = PUBLIC.refusal(scope(headers))
    assert (refusal and refusal.status) == status


def test_star_opens_hosts_or_origins_but_not_both():
    """A star opens one of them and not the other."""
    foreign = scope({"Host": "x.example", "Origin": "https://y.example"})
    for rules, status in (
        (GateRules(), 421),
        (GateRules(("*",)), 403),
        (GateRules((), ("*",)), 421),
        (GateRules(("*",), ("*",)), None),
    ):
        refusal = rules.refusal(foreign)
        assert (refusal and refusal.status) == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://chat", 200),
        ("http://chat:3000", 403),  # another port is the same site: cookies are sent
        ("http://chat.evil.example", 403),
        ("null", 403),
    ],
)
async def test_pages_of_other_origins_are_refused(origin: str | None, status: int) -> None:
    """Also where the application itself runs in the process of its client, which has a name and no address."""
    app = Gate(
        Starlette(routes=[Route("/", lambda _: PlainTextResponse("hello"), methods=["POST"])]),
        GateRules(origins=["http://chat"]),
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://chat") as client:  # type: ignore[arg-type]
        answer = await client.post("/", headers={"Origin": origin} if origin else {})
    assert answer.status_code == status


def proxy(*addresses: str, secret_env: str | None = None, host: str = "0.0.0.0") -> TrustedProxy:
    """Return a proxy that says who asks in X-User."""
    return TrustedProxy.from_options("X-User", host, addresses, secret_env, "X-Proxy-Secret")


@pytest.mark.parametrize(
    ("peer", "addresses", "status"),
    [
        ("10.0.0.9", ("10.0.0.9",), None),
        ("::ffff:10.0.0.9", ("10.0.0.0/24",), None),
        ("10.0.1.9", ("10.0.0.0/24", "fd00::/8"), 403),
        ("fd00::1", ("10.0.0.0/24", "fd00::/8"), None),
        ("", ("10.0.0.9",), 403),
    ],
)
def test_a_user_header_counts_from_trusted_addresses_only(peer: str, addresses: tuple[str, ...], status: int | None):
    asked = scope({"X-User": "ann"}, peer=peer)
    if status is None:
        assert proxy(*addresses).user_of(asked) == "ann"
        return
    with pytest.raises(ProxyRefusal, match="reverse proxy") as refused:
        proxy(*addresses).user_of(asked)
    assert refused.value.status == status


def test_a_user_header_counts_with_the_shared_secret_only(monkeypatch: pytest.MonkeyPatch):
    """Whatever the address; neither a wrong secret nor two of them will do."""
    monkeypatch.setenv("SECRET", "s3cret")
    trusted = proxy(secret_env="SECRET")
    assert "s3cret" not in repr(trusted)
    assert trusted.user_of(scope({"X-User": "ann", "X-Proxy-Secret": "s3cret"})) == "ann"
    both = scope({"X-User": "ann", "X-Proxy-Secret": "s3cret"})
    both["headers"].append((b"x-proxy-secret", b"guess"))
    for asked in (scope({"X-User": "ann"}), scope({"X-User": "ann", "X-Proxy-Secret": "guess"}), both):
        with pytest.raises(ProxyRefusal, match="secret once, in X-Proxy-Secret") as refused:
            trusted.user_of(asked)
        assert refused.value.status == 403
    with pytest.raises(ProxyRefusal, match="reverse proxy only"):
        proxy("10.0.0.1", secret_env="SECRET").user_of(scope({"X-User": "ann", "X-Proxy-Secret": "s3cret"}))


def test_a_user_header_that_came_twice_or_empty_is_refused():
    twice = scope({"X-User": "mallory"})
    twice["headers"].append((b"x-user", b"ann"))
    for asked, status in ((twice, 400), (scope({}), 401), (scope({"X-User": " "}), 401)):
        with pytest.raises(ProxyRefusal, match="X-User") as refused:
            proxy("10.0.0.9").user_of(asked)
        assert refused.value.status == status


def test_proxy_without_address_and_secret_is_trusted_on_loopback_only():
    """On loopback whoever connects is on this machine; elsewhere the command refuses to start."""
    local = proxy(host="127.0.0.1")
    assert local.user_of(scope({"X-User": "ann"}, peer="127.0.0.1")) == "ann"
    with pytest.raises(ProxyRefusal):
        local.user_of(scope({"X-User": "ann"}))
    with pytest.raises(UsageError, match=r"--trusted-proxy ADDRESS.*--proxy-secret-env NAME"):
        proxy()
    with pytest.raises(UsageError, match="--trusted-proxy: 'nonsense'"):
        proxy("nonsense")
    with pytest.raises(UsageError, match="--proxy-secret-env NONE: set it"):
        proxy(secret_env="NONE")
