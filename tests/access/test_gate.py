"""One gate for every server: names, pages and WebSockets are let in or refused alike, over real sockets."""

import asyncio
import json

import httpx
import pytest

from tests.support.waiting import PATIENT_SECONDS

from .conftest import Door

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.thorough]

IN, FOREIGN_HOST, FOREIGN_PAGE = 0, 421, 403
OWN, OTHER_PORT = "own origin", "http://127.0.0.1:1"

# headers beside the usual ones, what becomes of a read, what becomes of a write
CASES: list[tuple[list[tuple[str, str]], int, int]] = [
    ([], IN, IN),
    ([("Cookie", "a=b")], IN, IN),
    ([("Host", "localhost:9")], IN, IN),
    ([("Host", "LOCALHOST")], IN, IN),
    ([("Host", "[::1]:9")], IN, IN),
    ([("Host", "evil.example")], FOREIGN_HOST, FOREIGN_HOST),
    ([("Host", "127.0.0.1.evil.example")], FOREIGN_HOST, FOREIGN_HOST),
    ([("Host", "localhost@evil.example")], FOREIGN_HOST, FOREIGN_HOST),
    ([("Host", "10.0.0.7:80")], FOREIGN_HOST, FOREIGN_HOST),
    ([("Host", "evil.example"), ("Origin", "http://evil.example")], FOREIGN_HOST, FOREIGN_HOST),
    ([("Origin", OWN)], IN, IN),
    ([("Origin", OWN), ("Sec-Fetch-Site", "same-origin")], IN, IN),
    ([("Sec-Fetch-Site", "same-origin")], IN, IN),
    ([("Sec-Fetch-Site", "none")], IN, IN),
    ([("Sec-Fetch-Site", "same-site")], IN, FOREIGN_PAGE),
    ([("Sec-Fetch-Site", "cross-site")], IN, FOREIGN_PAGE),
    ([("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "https://evil.example")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "https://evil.example"), ("Sec-Fetch-Site", "same-origin")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "https://evil.example"), ("Authorization", "Bearer x")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "http://127.0.0.1.evil.example")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "null")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "http://[::1")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", "")], FOREIGN_PAGE, FOREIGN_PAGE),
    ([("Origin", OWN), ("Origin", "https://evil.example")], FOREIGN_PAGE, FOREIGN_PAGE),
]


def _told(door: Door, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, door.url if value == OWN else value) for name, value in headers]


async def _statuses(door: Door, client: httpx.AsyncClient, headers: list[tuple[str, str]]) -> tuple[int, int]:
    read = await client.get(door.read, headers=_told(door, headers))
    write = await client.post(door.write, json=door.body, headers=_told(door, headers))
    for answer in (read, write):
        if answer.status_code in (FOREIGN_HOST, FOREIGN_PAGE):
            told = answer.json()
            text = told["error"]["message"] if door.name == "mcp" else told["detail"]
            assert text
            assert door.name == "mcp" or answer.headers["content-type"] == "application/problem+json"
    refused = (FOREIGN_HOST, FOREIGN_PAGE)
    return tuple(answer.status_code if answer.status_code in refused else IN for answer in (read, write))  # type: ignore[return-value]


async def test_requests_pass_only_under_listed_names_and_from_own_pages(door: Door):
    """Reads are open to programs and pages of any site, under listed names; writes to own pages and programs."""
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=door.url, headers=accept, timeout=PATIENT_SECONDS, trust_env=False) as client:
        expected = {str(headers): (read, write) for headers, read, write in CASES}
        found = {str(headers): await _statuses(door, client, headers) for headers, _, _ in CASES}
        assert found == expected


async def test_pages_of_other_local_ports_write_to_the_mcp_server_only(door: Door):
    """An inspector of the protocol runs on another port of this machine; a chat's cookies are sent from there, too."""
    accept = {"Accept": "application/json, text/event-stream", "Origin": OTHER_PORT, "Sec-Fetch-Site": "same-site"}
    async with httpx.AsyncClient(base_url=door.url, headers=accept, timeout=PATIENT_SECONDS, trust_env=False) as client:
        answer = await client.post(door.write, json=door.body)
        assert answer.status_code == (200 if door.name == "mcp" else FOREIGN_PAGE)


async def test_refusals_name_the_setting_that_would_allow_the_request(door: Door):
    settings = {"chat": "--public-host", "mcp": "--public-host", "chainlit": "allow_origins of .chainlit/config.toml"}
    async with httpx.AsyncClient(base_url=door.url, timeout=PATIENT_SECONDS, trust_env=False) as client:
        answer = await client.post(door.write, json=door.body, headers={"Host": "evil.example"})
        assert settings[door.name] in answer.text
        assert "'evil.example'" in json.loads(answer.text).get("detail", answer.text)


async def test_requests_with_two_hosts_or_none_reach_nothing(door: Door):
    """A second Host could be the one that something in between looked at."""
    for hosts in (b"Host: localhost\r\nHost: evil.example\r\n", b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(b"GET %s HTTP/1.0\r\n%s\r\n" % (door.read.encode(), hosts))
        status = int((await reader.readline()).split()[1])
        writer.close()
        assert status in (400, FOREIGN_HOST)


async def test_websockets_of_foreign_pages_are_refused(door: Door):
    """Browsers hold a page's WebSocket to no origin: the handshake is refused, or there is no WebSocket at all."""
    for headers, is_in in (
        ("", True),
        (f"Origin: {door.url}\r\n", True),
        ("Origin: https://evil.example\r\n", False),
        ("Origin: null\r\n", False),
        ("Sec-Fetch-Site: cross-site\r\n", False),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        path = door.socket or door.read
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n".encode()
        )
        status = int((await reader.readline()).split()[1])
        writer.close()
        if door.socket:
            assert status == (101 if is_in else FOREIGN_PAGE), headers
        else:
            assert status != 101


async def test_hostile_bodies_are_refused_by_every_server(door: Door):
    """By their number of values, their depth and their size; the server goes on."""
    if door.name == "mcp":  # its SDK limits the size alone
        async with httpx.AsyncClient(base_url=door.url, trust_env=False) as client:
            assert (await client.post(door.write, content=b"x" * 9_000_000)).status_code == 413
        return
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=door.url, headers=accept, timeout=PATIENT_SECONDS, trust_env=False) as client:
        for body, status in (
            (b'{"session_id": [' + b"{}," * 100_000 + b"{}]}", 413),
            (b"[" * 5_000 + b"]" * 5_000, 400),
            (b'"%b"' % (b"x" * 9_000_000), 413),
        ):
            answer = await client.post(door.write, content=body)
            assert (answer.status_code, bool(answer.json())) == (status, True)
        assert (await client.post(door.write, json=door.body)).status_code == 200
