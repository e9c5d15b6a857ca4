"""Over HTTP: who is let in, to whose memory, and how the process ends."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from mcp import McpError, types
from pydantic import AnyUrl

from memory_context import MemoryStore
from memory_context.surfaces.access.gate import Tokens, UsageError, is_loopback
from memory_context.surfaces.cli import execute
from tests.conftest import REPOSITORY
from tests.support.mcp import INITIALIZE, talk
from tests.support.waiting import soon

from .conftest import listening, over_http, said, stored

pytestmark = pytest.mark.thorough

TOKENS = {"one": "alice", "also": "alice", "two": "bob"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


async def test_token_gives_access_to_memory_of_its_user_only(store: MemoryStore):
    """In tools, resources and completion; a second token of the same user opens the same."""
    await talk(store, "private", "the name of the ship?")
    async with listening(store, TOKENS) as url, over_http(url, "one") as alice, over_http(url, "two") as bob:
        key = await stored(alice, "the ship is called Ida", "the ship's name")
        await store.flush_index()
        calls: list[tuple[str, dict[str, Any], str]] = [
            ("retrieve_memory", {"memory_key": key}, "Ida"),
            ("search_memory", {"query": "ship"}, "Ida"),
            ("query_memory", {}, "ship's name"),
            ("query_memory", {"related_to": key}, "Nothing is stored"),
            ("read_history", {}, "name of the ship"),
            ("read_history", {"session_id": "private"}, "name of the ship"),
        ]
        for name, arguments, wanted in calls:
            assert wanted in said(await alice.call_tool(name, arguments))
            theirs = said(await bob.call_tool(name, arguments))
            assert "Ida" not in theirs
            assert "ship's name" not in theirs
            assert "name of the ship" not in theirs
        assert len((await alice.list_resources()).resources) == 2
        assert (await bob.list_resources()).resources == []
        for uri in (f"memory://{key}", "memory://sessions/private"):
            assert (await alice.read_resource(AnyUrl(uri))).contents
            with pytest.raises(McpError, match=r"no item|no session"):
                await bob.read_resource(AnyUrl(uri))
        for uri, name in (("memory://{key}", "key"), ("memory://sessions/{session_id}", "session_id")):
            template = types.ResourceTemplateReference(type="ref/resource", uri=uri)
            asked = {"name": name, "value": ""}
            assert len((await alice.complete(template, asked)).completion.values) == 1
            assert (await bob.complete(template, asked)).completion.values == []
        async with over_http(url, "also") as alice_again:
            assert said(await alice_again.call_tool("retrieve_memory", {"memory_key": key})) == "the ship is called Ida"


async def test_client_goes_on_after_server_restarts(store: MemoryStore):
    """Nothing is kept between requests: the session of the SDK's client outlives the server, and so does an old id."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with listening(store, TOKENS, port=port) as url:
        client = await (around := AsyncExitStack()).enter_async_context(over_http(url, "one"))
        key = await stored(client, "text")
    async with around, listening(store, TOKENS, port=port) as url, httpx.AsyncClient(base_url=url) as http:
        assert said(await client.call_tool("retrieve_memory", {"memory_key": key})) == "text"
        earlier = headers("one") | {"Mcp-Session-Id": "of-an-earlier-version"}
        assert (await http.post("/mcp", json=LIST, headers=earlier)).status_code == 200
        for token in ("guess", ""):
            assert (await http.post("/mcp", json=LIST, headers=headers(token))).status_code == 401


async def test_server_takes_posts_of_listed_names_with_a_token(store: MemoryStore):
    """Nothing is sent unasked, so that a GET is refused; pages and names are the gate's affair."""
    async with listening(store) as url, httpx.AsyncClient(base_url=url) as http:
        assert (await http.post("/mcp", json=INITIALIZE, headers=headers(""))).status_code == 200
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.put("/mcp")).headers["allow"] == "POST"
    async with listening(store, TOKENS, ("memory.example",)) as url, httpx.AsyncClient(base_url=url) as http:
        for token, more, status in (
            ("one", {"Host": "memory.example"}, 200),
            ("one", {"Host": "elsewhere.example"}, 421),
            ("one", {"Origin": "https://evil.example"}, 403),
            ("guess", {}, 401),
            ("", {}, 401),
        ):
            answer = await http.post("/mcp", json=INITIALIZE, headers=headers(token) | more)
            assert answer.status_code == status
            assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)


async def test_malformed_messages_are_http_errors(store: MemoryStore):
    """And the server goes on."""
    async with listening(store) as url, httpx.AsyncClient(base_url=url) as http:
        for body, status in ((b"{", 400), (b"[]", 400), (b"{}", 400), (b"x" * 5_000_000, 413)):
            answer = await http.post("/mcp", content=body, headers=headers("") | {"Content-Type": "application/json"})
            assert answer.status_code == status
        assert (await http.get("/health")).json() == {"status": "ok"}


async def test_health_says_whether_the_database_answers(caplog: pytest.LogCaptureFixture):
    """Whoever runs the server finds the reason in the log, without a password."""
    down = MemoryStore("postgresql://u:secret@127.0.0.1:1/x")
    async with listening(down) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert "does not answer" in caplog.text
    assert "secret" not in caplog.text
    await down.close()


async def test_metrics_count_operations_on_the_memory(store: MemoryStore):
    """Without a token, like the probe; they name no user."""
    async with listening(store, TOKENS) as url, over_http(url, "one") as alice:
        await stored(alice, "the ship is called Ida", "the ship's name")
        async with httpx.AsyncClient(base_url=url) as http:
            text = (await http.get("/metrics")).text
    assert 'gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="create_memory"}' in text
    assert 'memory_context_requests_total{http_request_method="POST",http_response_status_code="200"}' in text
    assert "alice" not in text
    assert "Ida" not in text


async def test_mcp_command_serves_http_until_sigterm(database_url: str):
    """It says where; with a client connected it stops at once all the same."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from memory_context.surfaces.cli import main; main()",
        "mcp", "--transport", "http", "--port", "0", "--url", database_url, "--token-env", "TOKENS",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TOKENS": "alice:one"},
    )  # fmt: skip
    assert process.stderr is not None
    told = b""
    try:
        while b"running on" not in (line := await process.stderr.readline()):
            told += line
            assert line, told.decode()
        url = line.decode().split("running on ")[1].split()[0]
        async with over_http(url, "one") as client:
            assert len((await client.list_tools()).tools) == 6
            process.send_signal(signal.SIGTERM)
            assert await soon(process.wait()) == 0
    finally:
        if process.returncode is None:
            process.kill()
        out, _ = await process.communicate()
    assert out == b""


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--transport", "http", "--host", "0.0.0.0"], 2, "give --token-env NAME"),
        (["--transport", "http", "--token-env", "NONE"], 2, "user:token pairs"),
        (["--transport", "http", "--token-env", "TOKENS", "--user", "x"], 2, "MEMORY_CONTEXT_USER, contradicts"),
        (["--transport", "http", "--token-env", "TWICE"], 2, "have the same token"),
        (["--token-env", "TOKENS"], 2, "--token-env is for --transport http"),
        (["--transport", "pigeon"], 2, "'pigeon'"),
        (["--url", "nonsense"], 2, "expected postgresql:"),
        (["--user", "x" * 200], 2, "1 to 128 printable characters"),
        (["--session", "a\nb"], 2, "1 to 128 printable characters"),
    ],
)
def test_mcp_command_usage_error_is_one_line_with_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
):
    """In one line, on stderr, with an exit code."""
    monkeypatch.setenv("TOKENS", "alice:one")
    monkeypatch.setenv("TWICE", "alice:one bob:one")
    assert execute(["mcp", *arguments]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert printed.err.count("\n") == 1


def test_tokens_are_read_strictly_and_never_shown(monkeypatch: pytest.MonkeyPatch):
    """Pairs with spaces or commas between them; what is none is refused."""
    monkeypatch.setenv("PAIRS", "alice:one, bob:t:w:o alice:für")
    tokens = Tokens.from_environment("PAIRS")
    assert tokens.users == {"alice", "bob"}
    for header, user in (
        ("Bearer one", "alice"),
        ("bearer  t:w:o ", "bob"),
        ("Bearer " + "für".encode().decode("latin-1"), "alice"),
        ("Bearer On", None),
        ("Basic one", None),
        ("Bearer", None),
        ("", None),
    ):
        assert tokens.user_of(header) == user
    assert "one" not in repr(tokens)
    for wrong in ("alice", "alice:", ":one", "", f"{'x' * 200}:one"):
        monkeypatch.setenv("PAIRS", wrong)
        with pytest.raises(UsageError, match="user:token"):
            Tokens.from_environment("PAIRS")
    assert [is_loopback(host) for host in ("127.9.9.9", "::1", "[::1]", "LocalHost", "0.0.0.0", "example.org", "")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip


def headers(token: str) -> dict[str, str]:
    """Return what a client sends with each request."""
    accepted = {"Accept": "application/json, text/event-stream"}
    return accepted | ({"Authorization": f"Bearer {token}"} if token else {})
