"""What is wrong with a request is said with its remedy, and nothing that comes in makes the server fail."""

import base64
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from memory_context import MemoryStore
from memory_context.foundation import errors
from memory_context.foundation.runtime import background
from memory_context.store.conversations import ConversationArchive
from memory_context.surfaces.web import ChatLimits, create_app
from memory_context.surfaces.web.router import RequestLimiter

from .conftest import Client, Model, StartChat, assistant, message

JSON = {"Content-Type": "application/json"}
GOOD = message("hello", id="m1")


def body(**changes: Any) -> bytes:
    return json.dumps({"new_messages": [{**GOOD, **changes}]}).encode()


INVALID: list[tuple[bytes, int]] = [
    (b"\xff\xff", 400),
    (b"[" * 100_000, 400),
    (b"9" * 5_000, 400),
    (b"", 422),
    (b"{", 422),
    (b"NaN", 422),
    (b'{"new_messages": [{"id": "\\ud800"}]}', 422),
    (body(text="x").replace(b'"x"', b'"\\udc00"'), 422),
    (json.dumps({"new_messages": [GOOD], "\ud800" * 900: 1}).encode(), 422),
    (b"null", 422),
    (b'{"new_messages": []}', 422),
    (body(id=""), 422),
    (body(id="x" * 129), 422),
    (body(id="a\x00b"), 422),
    (body(id=7), 422),
    (body(sender="system"), 422),
    (body(timestamp="2026-01-01T00:00:00"), 422),
    (body(timestamp="0001-01-01T00:00:00+14:00"), 422),
    (body(timestamp="9999-12-31T23:59:59-14:00"), 422),
    (body(more="fields"), 422),
    (json.dumps({"new_messages": [GOOD], "session_id": ".."}).encode(), 422),
    (json.dumps({"new_messages": [GOOD], "agent_id": 10**400}).encode(), 422),
    (json.dumps({"new_messages": [GOOD] * 101}).encode(), 422),
    (json.dumps({"new_messages": [{}] * 100}).encode(), 422),
    (body(text="x" * 200_001), 422),
]


async def test_invalid_body_is_refused_with_place_of_each_flaw(client: Client):
    """Without repeating the input, which may be long or no text that a response can carry."""
    for content, status in INVALID:
        response = await client.post("/api/chat", content=content, headers=JSON)
        assert response.status_code == status, content[:100]
        assert len(response.content) < 1_500
        told = response.json()["detail"]
        assert told
        if status == 422:
            assert all(one["loc"][0] == "body" and set(one) == {"type", "loc", "msg"} for one in told)


async def test_any_text_round_trips_unchanged(client: Client):
    """NUL, escape characters, any script: exactly as it was said."""
    text = "a\x00b\x1a0000 \u202e \U0001f600 ' \\u0000"
    answer = (await client.say(message(text))).json()
    assert answer["message"]["text"] == f"answer to {text}"
    assert await client.texts(answer["session_id"]) == [text, f"answer to {text}"]


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
async def test_other_media_types_are_415(client: Client, headers: dict[str, str]):
    response = await client.post("/api/chat", content=body(), headers=headers)
    assert (response.status_code, response.json()["detail"]) == (415, "send JSON, as application/json")


async def test_oversized_body_is_413_and_not_read_on(start_chat: StartChat):
    """Announced or in chunks without end."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 1000

    async with start_chat(limits=ChatLimits(body_bytes=10_000)) as client:
        told = "a body has at most 10,000 bytes: send less at a time"
        for content in (b" " * 10_001, endless()):
            response = await client.post("/api/chat", content=content, headers=JSON)
            assert (response.status_code, response.json()["detail"]) == (413, told)
    assert sent <= 11


async def test_request_over_rate_limit_is_429_with_retry_after(start_chat: StartChat):
    """Each user has a count of their own; the answer says when to come back."""
    async with start_chat(limits=ChatLimits(requests_per_minute=3)) as client:
        statuses = [(await client.get("/api/chat/sessions")).status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        refused = await client.say("hello")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert "come back in" in refused.json()["detail"]
        assert (await client.as_user("bob").get("/api/chat/sessions")).status_code == 200


async def test_anonymous_requests_are_limited_by_address(start_chat: StartChat):
    async with start_chat(user=None, allow_anonymous=True, limits=ChatLimits(requests_per_minute=1)) as client:
        assert [(await client.get("/api/chat/sessions")).status_code for _ in range(2)] == [200, 429]


async def test_requests_pass_while_counter_storage_is_down(caplog: pytest.LogCaptureFixture):
    """A Redis that is away stops no chat; it is said once."""
    limiter = RequestLimiter(1, "async+redis://127.0.0.1:1/0")
    for _ in range(3):
        await limiter.check("user alice")
    assert caplog.text.count("not counted") == 1


async def test_store_outage_is_logged_once_for_requests_and_probes(
    store: MemoryStore, model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A line a request would bury the log; after a minute without a failure the next one begins another outage."""
    now = [time.monotonic() + 3600]  # after what other tests have left in the log of outages
    monkeypatch.setattr(background, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for name in ("session", "sessions"):
        monkeypatch.setattr(ConversationArchive, name, AsyncMock(side_effect=errors.StoreUnavailableError("away")))
    app = create_app(store, assistant(model), agents=["assistant"], allow_anonymous=True)
    async with Client(transport=httpx.ASGITransport(app), base_url="http://chat") as client:
        for outage in range(1, 3):
            for _ in range(3):
                assert (await client.get("/api/chat/sessions")).status_code == 503
                assert (await client.get("/ready")).status_code == 503
                now[0] += 50
            assert caplog.text.count("requests are refused") == outage
            now[0] += 61
    assert caplog.text.count("not ready") == 1, "it was never ready in between"


_ELSEWHERE = base64.urlsafe_b64encode(b"2026-13-41T00:00:00+00:00 session").decode().rstrip("=")
"""A cursor of the right form that names no place."""


async def test_unknown_addresses_methods_and_parameters_are_refused(client: Client):
    for method, path, status, allowed in (
        ("GET", "/api/chat/nowhere", 404, None),
        ("PUT", "/api/chat", 405, "POST"),
        ("DELETE", "/api/chat/sessions/1/messages", 405, "GET"),
        ("GET", "/api/chat/sessions?before=nonsense", 422, None),
        ("GET", f"/api/chat/sessions?before={'A' * 24}", 404, None),
        ("GET", f"/api/chat/sessions/1/messages?before={_ELSEWHERE}", 404, None),
        ("GET", "/api/chat/sessions?limit=0", 422, None),
        ("GET", f"/api/chat/sessions?limit={'9' * 5000}", 422, None),
        ("GET", f"/api/chat/sessions/{'x' * 129}", 422, None),
        ("GET", "/api/chat/sessions/%00", 422, None),
    ):
        response = await client.request(method, path)
        assert (response.status_code, response.headers.get("allow")) == (status, allowed), path
        assert response.json()["detail"]


async def test_unavailable_store_is_503_without_internal_text(client: Client, monkeypatch: pytest.MonkeyPatch):
    """The text of its error stays inside."""

    async def away(*_: object, **__: object) -> None:
        raise errors.StoreUnavailableError("the database at 10.0.0.7 does not answer")

    session = (await client.say("hello")).json()["session_id"]
    monkeypatch.setattr("memory_context.store.database.Database.read", away)
    monkeypatch.setattr("memory_context.store.database.Database.write", away)
    for response in (
        await client.say("hello"),
        await client.get("/api/chat/sessions"),
        await client.delete(f"/api/chat/sessions/{session}"),
    ):
        assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
        assert "10.0.0.7" not in response.text
    assert (await client.say("a live session goes on", session=session)).status_code == 200


async def test_unexpected_error_is_500_without_details(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(MemoryStore, "open", broken)
    monkeypatch.setattr("memory_context.store.database.Database.read", broken)
    response = await client.get("/api/chat/sessions")
    assert (response.status_code, response.json()) == (500, {"detail": "the log says what went wrong"})
    assert "secret" not in response.text
    assert "secret detail" in caplog.text
