"""The inspector's data: a user's own sessions, each call byte for byte, with reasons that follow from its decisions."""

from datetime import datetime, timedelta, timezone

import httpx
import pytest

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.messages import texts_of
from memory_context.sessions.archive.resume import whole_history
from memory_context.surfaces.web import create_app
from memory_context.view.calls import view_of_call

from ..agents.scripted import report
from ..context.steps import add_step
from ..web.conftest import Model, assistant, current_user
from .conftest import POLICY, Inspector, inspector_of, live

__all__: list[str] = []


@pytest.mark.thorough
async def test_each_call_of_a_session_is_shown_byte_for_byte(store: MemoryStore):
    lived = await live(store)
    saved, _ = whole_history(await store.conversations.read(SessionKey("alice", "coder", "s")))
    memory = AgentMemory(store, "alice", "coder", "s")
    async with inspector_of(store) as client:
        rows = await client.rows()
        assert [row["number"] for row in rows] == [*range(1, lived.calls + 1)]
        for row in rows:
            call = await client.read(f"sessions/s/calls/{row['number']}")
            assert (call["problem"], call["digest_now"]) == ("", call["digest"])
            again = await view_of_call(saved, row["number"], memory, POLICY)
            texts = [text for message in again.messages for _, text in texts_of(message)]
            assert [one["text"] for message in call["messages"] for one in message["segments"]] == texts
            assert sum(message["tokens"] for message in call["messages"]) == row["view"]


@pytest.mark.thorough
async def test_each_segment_says_why_it_is_what_it_is(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        calls = [await client.read(f"sessions/s/calls/{row['number']}") for row in await client.rows()]
    segments = [one for call in calls for message in call["messages"] for one in message["segments"]]
    by_look = {one["look"]: one for one in segments}
    assert {"said", "agent", "full", "excerpt", "placeholder", "folded", "opened"} <= by_look.keys()
    assert all(one["why"] for one in segments if one["look"] not in ("said", "agent"))
    assert "Compacted" in by_look["placeholder"]["why"]
    assert "calls expected" in by_look["folded"]["why"]
    assert by_look["opened"]["why"].startswith("Opened (named)")
    assert by_look["excerpt"]["why"].endswith("the assumed policy shows up to 1,000 whole.")
    assert {one["age"] for one in segments if one["number"] is None} <= {None}
    newest = [one for message in calls[-1]["messages"] for one in message["segments"] if one["number"] is not None]
    assert newest[-1]["age"] == 0


async def test_what_was_left_out_is_what_keeping_everything_had_more(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        rows = await client.rows()
        call = await client.read(f"sessions/s/calls/{len(rows)}")
    left = {one["what"]: one for one in call["left_out"]}
    assert left["folded"]["first"] <= left["folded"]["last"]
    assert left["folded"]["count"] > 0
    segments = [one for message in call["messages"] for one in message["segments"]]
    added = sum(one["tokens"] for one in segments if one["look"] in ("folded", "opened", "head"))
    spared = sum(one["tokens"] for one in call["left_out"])
    assert rows[-1]["raw"] - rows[-1]["head"] <= rows[-1]["view"] + spared <= rows[-1]["raw"] + added + 100


@pytest.mark.thorough
async def test_cached_prefix_ends_where_the_bill_says(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        for row in await client.rows():
            call = await client.read(f"sessions/s/calls/{row['number']}")
            cached = [message["tokens"] for message in call["messages"] if message["is_cached"]]
            assert sum(cached) + (row["head"] if row["read"] else 0) == row["read"]
            assert [one["is_cached"] for one in call["messages"]] == [True] * len(cached) + [False] * (
                len(call["messages"]) - len(cached)
            )
            if "folds" in row["marks"]:
                assert "folded" in call["cache"]


async def test_changes_since_the_call_before_name_the_decision(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        folded = next(row["number"] for row in await client.rows() if "folds" in row["marks"])
        told = await client.read(f"sessions/s/calls/{folded}/changes")
        first = await client.read("sessions/s/calls/1/changes")
    assert any(one["reason"] == "folded" for one in told["changes"])
    assert any(text.startswith("folded") for text in told["decisions"])
    assert {one["before"] for one in first["changes"]} == {None}


async def test_forgotten_item_makes_a_call_differ_and_the_reason_is_shown(store: MemoryStore):
    lived = await live(store)
    async with inspector_of(store) as client:
        shown = [
            row["number"]
            for row in await client.rows()
            for message in (await client.read(f"sessions/s/calls/{row['number']}"))["messages"]
            for one in message["segments"]
            if one["keys"] == [lived.keys[0]] and one["look"] == "full"
        ]
        await AgentMemory(store, "alice", "coder", "s").forget(lived.keys[0])
        call = await client.read(f"sessions/s/calls/{shown[0]}")
        gone = await client.get(f"items/{lived.keys[0]}")
    assert call["problem"].startswith("not what was handed out")
    assert call["digest"] != call["digest_now"]
    assert gone.status_code == 404


async def test_another_user_has_no_such_session_and_no_such_item(store: MemoryStore):
    lived = await live(store)
    paths = ("sessions/s", "sessions/s/calls", "sessions/s/calls/1", "sessions/s/calls/1/changes",
             "sessions/s/messages", f"items/{lived.keys[0]}", f"items/{lived.keys[0]}/content")  # fmt: skip
    async with inspector_of(store, "mallory") as client:
        assert (await client.read("sessions"))["sessions"] == []
        assert {path: (await client.get(path)).status_code for path in paths} == dict.fromkeys(paths, 404)
        asked = await client.post("sessions/s/what-if", json={"policy": {}})
        assert asked.status_code == 404
    async with inspector_of(store) as client:
        assert {path: (await client.get(path)).status_code for path in paths} == dict.fromkeys(paths, 200)
        for path in (
            "sessions/s/calls?agent=nobody",
            "sessions/s/calls/999",
            "sessions/none/calls",
            "items/none_abcdef",
        ):
            assert (await client.get(path)).status_code == 404, path


async def test_sessions_are_searched_filtered_and_paged(store: MemoryStore):
    for name in ("harbour", "island", "village"):
        await live(store, name, steps=1)
    async with MemoryContext("alice", "writer", "letter", store) as context:
        await add_step(context, report("words", 3))
    now = datetime.now(timezone.utc)
    async with inspector_of(store) as client:

        async def found(**query: object) -> list[str]:
            return [one["session_id"] for one in (await client.read("sessions", **query))["sessions"]]

        assert await found() == ["letter", "village", "island", "harbour"]
        assert await found(query="ISLAND") == ["island"]
        assert await found(agent="writer") == ["letter"]
        assert await found(since=(now - timedelta(hours=1)).isoformat()) == await found()
        assert await found(since=(now + timedelta(hours=1)).isoformat()) == []
        assert await found(until=(now - timedelta(hours=1)).isoformat()) == []
        page = await client.read("sessions", limit=3)
        assert await found(**page["next"], limit=3) == ["harbour"]
        assert (await client.read("sessions", limit=30))["next"] is None


async def test_costs_follow_the_chosen_price_list(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        recorded, uncached = await client.read("sessions/s"), await client.read("sessions/s", prices="uncached")
        (one,), (other,) = recorded["agents"], uncached["agents"]
        assert {name: one[name] for name in ("calls", "shown", "raw", "read")} == {
            name: other[name] for name in ("calls", "shown", "raw", "read")
        }
        assert other["cost"] == other["shown"]
        assert one["cost"] < other["cost"]
        rows = await client.rows(prices="uncached")
        assert sum(row["cost"] for row in rows) == other["cost"]
        assert (await client.get("sessions/s?prices=nobody")).status_code == 422


async def test_another_policy_is_billed_beside_the_recorded_one(store: MemoryStore):
    await live(store)
    async with inspector_of(store) as client:
        count = len(await client.rows())
        policy = (await client.read("about"))["policy"]
        same = (await client.post("sessions/s/what-if", json={"policy": policy})).json()
        smaller = {"from_call": 5, "policy": policy | {"token_budget": 3000, "first_view_limit_tokens": 400}}
        other = (await client.post("sessions/s/what-if", json=smaller)).json()
        wrong = await client.post("sessions/s/what-if", json={"policy": {"token_budget": 3}})
        unknown = await client.post("sessions/s/what-if", json={"policy": {"tokens": 3}})
    assert same["other"]["cost"] == pytest.approx(same["recorded"]["cost"], rel=0.01)
    assert same["remarks"] == []
    assert "policy" in same["assumed"]
    assert other["recorded"]["calls"] == other["other"]["calls"] == count - 4
    assert other["other"]["peak"] < other["recorded"]["peak"]
    assert other["remarks"] == [
        "first_view_limit_tokens: a lower limit changes nothing here, since nobody made the shorter texts"
    ]
    assert wrong.status_code == unknown.status_code == 422
    assert "too small" in wrong.json()["detail"][0]["msg"]


async def test_item_is_read_in_pieces_and_searched(store: MemoryStore):
    lived = await live(store)
    key = lived.keys[1]
    item = await AgentMemory(store, "alice").retrieve(key)
    assert item is not None
    async with inspector_of(store) as client:
        about = await client.read(f"items/{key}")
        pieces, offset = list[str](), 0
        while offset is not None:
            piece = await client.read(f"items/{key}/content", offset=offset, limit=700)
            pieces.append(piece["text"])
            offset = piece["next"]
        found = await client.read(f"items/{key}/content", transform="filtered", pattern="finding 12:")
        wrong = await client.get(f"items/{key}/content?transform=filtered&pattern=(")
    assert "".join(pieces) == item.content
    assert "finding 12:" in found["text"]
    assert wrong.status_code == 422
    assert about["tokens"] == item.ref.token_count
    assert "compacted" in {one["kind"] for one in about["events"]}
    assert [one["session_id"] for one in about["sessions"]] == ["s"]


async def test_texts_with_lone_surrogates_reach_the_page_as_they_are(store: MemoryStore):
    text = "half a smile \ud83d " + report("owl")
    async with MemoryContext("alice", "coder", "s", store, policy=POLICY) as context:
        await add_step(context, text)
        await context.get_messages()
        key = context.transcript.entries()[-1].measured[0].stored.refs[0].key  # type: ignore[union-attr]
    async with inspector_of(store) as client:
        assert (await client.read(f"items/{key}/content"))["text"] == text
        assert (await client.read("sessions/s/calls/1"))["problem"] == ""


async def test_chat_server_has_the_inspector_of_whoever_asks(store: MemoryStore):
    await live(store, user="alice", steps=2)
    app = create_app(store, assistant(Model()), current_user, agents=["coder"], policy=ContextPolicy())
    async with Inspector(transport=_transport(app), base_url="http://localhost/inspector/api/") as client:
        assert (await client.get("http://localhost/inspector/")).status_code == 200
        assert (await client.get("sessions")).status_code == 401
        for user, status in (("alice", 200), ("bob", 404)):
            found = await client.get("sessions/s/calls/1", headers={"X-User": user})
            assert found.status_code == status
        told = (await client.get("about", headers={"X-User": "alice"})).json()
    assert told["user"] == "alice"
    assert "that of this server is assumed" in told["assumed"]


def _transport(app: object) -> "httpx.ASGITransport":
    return httpx.ASGITransport(app)  # type: ignore[arg-type]
