"""The rules of the gate on names and pages, tokens, and the limit of bodies."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from memory_context.surfaces.access.gate import BodyLimit, Gate

HOSTS = ("chat.example.org", "other.example.org:8443")
ORIGINS = ("https://app.example.org",)


async def _told(request: Request) -> PlainTextResponse:
    await request.body()
    return PlainTextResponse(getattr(request.state, "user_id", "somebody"))


APP = Starlette(routes=[Route("/", _told, methods=["GET", "POST"])])


async def asked(app: Any, headers: dict[str, str], *, method: str = "POST", **settings: Any) -> httpx.Response:
    """Ask an application on 10.0.0.5."""

    async def on_address(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "server": ("10.0.0.5", 80)}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(on_address), base_url="http://chat") as client:
        return await client.request(method, "/", headers=headers, **settings)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "chat.example.org"}, 200),
        ({"Host": "Chat.Example.Org."}, 200),
        ({"Host": "chat.example.org:8000"}, 200),
        ({"Host": "other.example.org:8443"}, 200),
        ({"Host": "other.example.org"}, 421),
        ({"Host": "10.0.0.5:8000"}, 200),  # the address that the connection came in on
        ({"Host": "10.0.0.6:8000"}, 421),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": ""}, 421),
        ({"Host": "chat.example.org/x"}, 421),
        ({"Host": "chat.example.org", "Origin": "https://chat.example.org"}, 200),
        ({"Host": "chat.example.org:8000", "Origin": "https://chat.example.org"}, 200),  # a proxy added its port
        ({"Host": "127.0.0.1:8000", "Origin": "https://chat.example.org"}, 200),  # a proxy replaced the name
        ({"Host": "chat.example.org", "Origin": "https://chat.example.org:3000"}, 403),
        ({"Host": "chat.example.org", "Origin": "ftp://chat.example.org"}, 403),
        ({"Host": "chat.example.org", "Origin": "https://app.example.org", "Sec-Fetch-Site": "same-site"}, 200),
        ({"Host": "chat.example.org", "Origin": "https://app.example.org.evil.example"}, 403),
        ({"Host": "chat.example.org", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "chat.example.org", "Cookie": "a=b"}, 200),
    ],
)
async def test_requests_pass_under_listed_names_and_from_listed_pages(headers: dict[str, str], status: int):
    answer = await asked(Gate(APP, hosts=HOSTS, origins=ORIGINS), headers)
    assert answer.status_code == status
    if status != 200:
        assert ("name it in hosts" in answer.text) == (status == 421)
        assert ("name the origin in origins" in answer.text) == (status == 403)


@pytest.mark.parametrize(
    ("hosts", "origins", "status"), [((), (), 421), (["*"], (), 403), ((), ["*"], 421), (["*"], ["*"], 200)]
)
async def test_star_opens_hosts_or_origins_but_not_both(hosts: Any, origins: Any, status: int):
    headers = {"Host": "x.example", "Origin": "https://y.example"}
    assert (await asked(Gate(APP, hosts=hosts, origins=origins), headers)).status_code == status


@pytest.mark.parametrize(("origin", "status"), [("http://localhost:6274", 200), ("http://evil.example", 403)])
async def test_pages_of_other_local_ports_pass_where_allowed(origin: str, status: int):
    headers = {"Host": "localhost:8001", "Origin": origin}
    assert (await asked(Gate(APP, loopback_pages=True), headers)).status_code == status
    assert (await asked(Gate(APP), headers)).status_code == 403


async def test_names_learned_after_the_start_are_listed():
    hosts: list[str] = []
    app = Gate(APP, hosts=hosts)
    assert (await asked(app, {"Host": "late.example"})).status_code == 421
    hosts.append("late.example")
    assert (await asked(app, {"Host": "late.example"})).status_code == 200


async def test_bodies_over_the_limit_are_413_announced_or_not():
    async def chunks() -> Any:
        for _ in range(3):
            yield b"x" * 4

    app = BodyLimit(APP, 10)
    assert (await asked(app, {}, content=b"x" * 10)).status_code == 200
    for content in (b"x" * 11, chunks()):
        answer = await asked(app, {}, content=content)
        assert (answer.status_code, "at most 10 bytes" in answer.text) == (413, True)
