"""Bodies are counted before anything parses them, parsed beside the event loop, and have a deadline."""

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_context.surfaces.access.bodies import BodyLimits, BodyRefusal, check_json
from memory_context.surfaces.web import ChatLimits, schemas

from ..web.conftest import StartChat, message

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
TEXTS = st.text(alphabet=st.sampled_from('a",:[]{}\\\n\0\u6f22\ud800'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def _measured(value: Any) -> tuple[int, int]:
    """Return how many elements and members a value has, an empty array or object counting as one, and its depth."""
    if not isinstance(value, list | dict):
        return 0, 0
    parts = [_measured(one) for one in (value.values() if isinstance(value, dict) else value)]
    return max(1, len(parts)) + sum(one for one, _ in parts), 1 + max((deep for _, deep in parts), default=0)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
@example({'a"': ['\\"', "\\\\", "[[[["]}, None, True)
def test_check_json_counts_values_and_depth_like_a_parser(value: Any, indent: int | None, ascii_only: bool):
    """Whatever stands in texts: exactly as many values, and exactly as deep."""
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    values, depth = _measured(value)
    check_json(body, BodyLimits(10_000, values=max(1, values), depth=max(1, depth)))
    if values > 1:
        with pytest.raises(BodyRefusal, match="at most") as refused:
            check_json(body, BodyLimits(10_000, values=values - 1, depth=max(1, depth)))
        assert refused.value.kind == "too-large"
    if depth > 1:
        with pytest.raises(BodyRefusal, match=f"more than {depth - 1} deep"):
            check_json(body, BodyLimits(10_000, values=max(1, values), depth=depth - 1))


HOSTILE = {
    "empty elements": (b'{"new_messages": [' + b"{}," * 299_999 + b"{}]}", 413),
    "small keys": (b"{" + b",".join(b'"%d":1' % number for number in range(80_000)) + b"}", 413),
    "texts": (b"[" + b'"",' * 300_000 + b'""]', 413),
    "nested arrays": (b"[" * 5_000 + b"]" * 5_000, 400),
    "nested members": (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400),
    "blanks": (b" " * 900_000, 413),
    "a long number": (b'{"new_messages": ' + b"9" * 5_000 + b"}", 400),
    "another encoding": (('{"new_messages": [' + "{}," * 9 + "{}]}").encode("utf-16"), 400),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.thorough
async def test_hostile_bodies_are_never_parsed(start_chat: StartChat, monkeypatch: pytest.MonkeyPatch, name: str):
    body, status = HOSTILE[name]
    sizes: list[int] = []
    parsed = schemas.parse

    def counted(model: Any, given: bytes) -> Any:
        sizes.append(len(given))
        return parsed(model, given)

    monkeypatch.setattr(schemas, "parse", counted)
    async with start_chat() as client:
        answer = await client.post("/api/chat", content=body, headers=JSON)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert sizes == []
        assert (await client.say("hello")).status_code == 200


async def test_validation_errors_of_a_request_are_bounded(start_chat: StartChat):
    """The list ends with its first message that is wrong."""
    async with start_chat() as client:
        for wrong in ([{}] * 100, [{"id": 1, "text": 2, "sender": 3, "timestamp": 4, "more": 5}] * 80):
            answer = await client.post("/api/chat", json={"new_messages": wrong})
            assert answer.status_code == 422
            assert {one["pointer"].split("/")[2] for one in answer.json()["errors"]} == {"0"}


async def test_large_body_is_parsed_off_the_event_loop(start_chat: StartChat, monkeypatch: pytest.MonkeyPatch):
    """The parser waits for the loop to come round, which it does only if the loop is free meanwhile."""
    rounds = 0
    came_round = threading.Event()
    parsed = schemas.parse

    async def tick() -> None:
        nonlocal rounds
        while not came_round.is_set():
            await asyncio.sleep(0)
            rounds += is_parsing.is_set()
            if rounds >= 100:
                came_round.set()

    is_parsing = threading.Event()

    def waiting(model: Any, body: bytes) -> Any:
        is_parsing.set()
        assert came_round.wait(30), "the event loop stood still while a body was parsed"
        return parsed(model, body)

    monkeypatch.setattr(schemas, "parse", waiting)
    async with start_chat() as client:
        ticking = asyncio.create_task(tick())
        assert (await client.say("x" * 150_000)).status_code == 200
        await ticking
    assert rounds >= 100


async def test_bodies_have_a_deadline(start_chat: StartChat):
    """One that drips is refused, and so is one that never begins."""

    async def dripping() -> Any:
        yield b'{"new_messages": ['
        await asyncio.Event().wait()

    async with start_chat(limits=ChatLimits(body_seconds=0.05)) as client:
        answer = await client.post("/api/chat", content=dripping(), headers=JSON)
        assert (answer.status_code, answer.json()["title"]) == (408, "The body did not arrive in time")
        assert "0.05 s to arrive" in answer.json()["detail"]
        assert (await client.say("hello")).status_code == 200


def test_request_with_most_messages_is_within_body_limits():
    """As many messages as are allowed have room, also with every field there is."""
    full = [{**message("hello"), "unverified": False}] * ChatLimits().messages
    check_json(json.dumps({"new_messages": full}, indent=2).encode(), ChatLimits().body)
