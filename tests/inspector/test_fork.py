"""A session forked from a call, and one compacted now: what the model reads then, and that nothing else changes."""

import json
from collections.abc import Sequence

import psycopg
import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.errors import ItemNotFoundError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.cache import SessionCache
from memory_context.testing import ScriptedModel, observe_by_script

from ..context.steps import ALWAYS_PAYS, add_step
from .conftest import inspector_of

POLICY = ContextPolicy(token_budget=6_000, cache=ALWAYS_PAYS)


def report(number: int) -> str:
    return "\n".join(f"boiler {number} line {line}: {line * 7} bar" for line in range(600))


async def lived(
    store: MemoryStore, session_id: str = "s", agent: str = "coder", **settings: object
) -> list[list[LLMMessage]]:
    """Let an agent read large results until the oldest steps are folded; return the view of each of its calls."""
    context = MemoryContext("alice", agent, session_id, store, policy=POLICY, **settings)  # type: ignore[arg-type]
    views: list[list[LLMMessage]] = []
    for number in range(6):
        await context.add_message(UserMessage(content=f"I prefer bar. Read boiler {number}.", source="user"))
        views.append(await context.get_messages())
        await add_step(context, report(number))
        views.append(await context.get_messages())
        await context.add_message(AssistantMessage(content=f"It is at {number * 7} bar.", source=agent))
    await context.close()
    return views


def batches(url: str, session_id: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT to_jsonb(batch)::text FROM memory_context.recent_conversation_history AS batch"
            " WHERE session_id = %s ORDER BY sequence",
            [session_id],
        )
        return rows.fetchall()


async def test_a_fork_reads_what_the_model_read_at_each_call(store: MemoryStore, database_url: str):
    """Byte for byte, with results that were whole, excerpts, placeholders or folded then; the other session stays."""
    views = await lived(store)
    before = batches(database_url, "s")
    async with inspector_of(store, policy=POLICY) as client:
        calls = (await client.get("sessions/s/calls")).json()["rows"]
        assert len(calls) == len(views)
        for number, view in enumerate(views, 1):
            made = (await client.post(f"sessions/s/calls/{number}/fork")).json()
            fork = MemoryContext("alice", "coder", made["session_id"], store, policy=POLICY)
            assert await fork.get_messages() == view, number
            await fork.close()
    assert batches(database_url, "s") == before


async def test_a_fork_goes_on_by_itself_with_a_bill_of_its_own(store: MemoryStore):
    views = await lived(store)
    async with inspector_of(store, policy=POLICY) as client:
        made = (await client.post("sessions/s/calls/5/fork")).json()
        fork = MemoryContext("alice", "coder", made["session_id"], store, policy=POLICY)
        assert await fork.get_messages() == views[4]
        await fork.add_message(AssistantMessage(content="Another answer.", source="coder"))
        await fork.add_message(UserMessage(content="And now?", source="user"))
        view = await fork.get_messages()
        assert fork.stats.views == 2
        state = await fork.save_state()
        await fork.close()
        again, loaded = (MemoryContext("alice", "coder", made["session_id"], store, policy=POLICY) for _ in range(2))
        await loaded.load_state(json.loads(json.dumps(state)))
        assert await again.get_messages() == await loaded.get_messages() == view
        assert again.resume_report.is_complete
        shown = (await client.get(f"sessions/{made['session_id']}/calls")).json()
        assert [row[0] for row in shown["rows"]] == [1, 2]
        assert (await client.get(f"sessions/{made['session_id']}/calls/1")).status_code == 200
        second = (await client.post(f"sessions/{made['session_id']}/calls/2/fork")).json()
        of_fork = MemoryContext("alice", "coder", second["session_id"], store, policy=POLICY)
        assert await of_fork.get_messages() == view
        assert of_fork.stats.views == 1
        listed = {one["session_id"]: one["title"] for one in (await client.get("sessions")).json()["sessions"]}
        assert listed[made["session_id"]].startswith("Fork from call 5: ")


async def test_what_is_forgotten_is_gone_from_a_fork_too(store: MemoryStore, database_url: str):
    await lived(store)
    async with inspector_of(store, policy=POLICY) as client:
        made = (await client.post("sessions/s/calls/8/fork")).json()
        items = (await client.get("items", params={"session": "s", "origin": "tool"})).json()["items"]
        first = items[-1]["key"]  # the oldest
        going = (await client.get("going", params={"key": first})).json()
        assert {one["session_id"] for one in going["sessions"]} == {"s", made["session_id"]}
        agreed = [one["memory_key"] for one in going["items"]]
        assert (await client.post("forget", json={"keys": [first], "agreed": agreed})).status_code == 200
    fork = MemoryContext("alice", "coder", made["session_id"], store, policy=POLICY)
    text = str(await fork.get_messages())
    assert "boiler 0 line" not in text
    assert all("boiler 0 line" not in str(one) for one in batches(database_url, made["session_id"]))


async def test_a_fork_outlives_its_session_without_the_results_that_this_stored(store: MemoryStore):
    views = await lived(store)
    async with inspector_of(store, policy=POLICY) as client:
        made = (await client.post("sessions/s/calls/4/fork")).json()
        assert (await client.delete("sessions/s")).status_code == 204
    fork = MemoryContext("alice", "coder", made["session_id"], store, policy=POLICY)
    view = await fork.get_messages()
    assert [type(one) for one in view] == [type(one) for one in views[3]]
    assert "I prefer bar. Read boiler 1." in [one.content for one in view]
    (key,) = fork.transcript[6].measured[0].stored.refs  # type: ignore[union-attr]
    with pytest.raises(ItemNotFoundError):
        await fork.retrieve(key.key)


async def test_there_is_no_fork_of_anothers_session_of_no_call_or_of_private_items(store: MemoryStore):
    await lived(store)
    await lived(store, "s/spy", "spy", sharing="isolated")
    async with inspector_of(store, "bob", policy=POLICY) as client:
        assert (await client.post("sessions/s/calls/1/fork")).status_code == 404
        assert (await client.post("sessions/s/compact", json={})).status_code == 404
    async with inspector_of(store, policy=POLICY) as client:
        assert (await client.post("sessions/s/calls/99/fork")).status_code == 404
        refused = await client.post("sessions/s%2Fspy/calls/3/fork")
        assert (refused.status_code, "is private to it" in refused.json()["detail"]) == (409, True)


def observing(asked: list[str]) -> ScriptedModel:
    def observe(messages: Sequence[LLMMessage]) -> str:
        asked.append("\n".join(str(one.content) for one in messages))
        return observe_by_script(messages)

    return ScriptedModel(observe)


async def test_a_session_is_observed_now_by_an_instruction(store: MemoryStore):
    await lived(store)
    asked: list[str] = []
    async with inspector_of(store, policy=POLICY, light_model=observing(asked)) as client:
        done = (await client.post("sessions/s/compact", json={"instruction": "Keep every pressure."})).json()
        assert done["left"] > 10
        again = await client.post("sessions/s/compact", json={})
        assert again.status_code == 409
    assert any("Keep every pressure." in one for one in asked)
    resumed = MemoryContext("alice", "coder", "s", store, policy=POLICY)
    said = [one.content for one in await resumed.get_messages()]
    assert any(done["lines"][0] in str(one) for one in said)
    assert "I prefer bar. Read boiler 4." not in said
    assert "I prefer bar. Read boiler 5." in said


async def test_a_session_that_is_at_work_elsewhere_is_not_compacted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory_context.surfaces.inspector.fork._WAIT_SECONDS", 0.2)
    await lived(store)
    cache = SessionCache(lambda key: MemoryContext(*key, store), memory_store=store)
    async with inspector_of(store, light_model=observing([])) as client, cache.hold(SessionKey("alice", "coder", "s")):
        refused = await client.post("sessions/s/compact", json={})
        assert refused.status_code == 409
        assert "session 's'" in refused.json()["detail"]
    await cache.close()


async def test_without_a_light_model_it_says_how_to_name_one(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MEMORY_CONTEXT_LIGHT_MODEL", raising=False)
    await lived(store)
    async with inspector_of(store) as client:
        refused = await client.post("sessions/s/compact", json={})
    assert (refused.status_code, "MEMORY_CONTEXT_LIGHT_MODEL" in refused.json()["detail"]) == (409, True)
