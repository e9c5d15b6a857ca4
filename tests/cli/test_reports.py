"""`stats`, `explain`: the recorded bill of a session, and what its model saw, made again from the archive."""

import asyncio
import json
import re
from dataclasses import asdict, replace

import pytest

from memory_context import CachePolicy, ContextPolicy, ContextStats, MemoryContext, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.policy import LearningPolicy
from memory_context.sessions.archive.resume import whole_history
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ViewShown
from memory_context.store.conversations import Archived
from memory_context.view.bill import UsageMeter
from memory_context.view.view import View

from ..agents.scripted import report
from ..archive.talking import say
from ..conftest import Server, database_of
from ..context.lights import Light, choose
from ..context.steps import add_step
from .lived import SESSION, Command, Lived, command_of

pytestmark = pytest.mark.thorough

RECORDED = (
    *("views", "raw_tokens", "view_tokens", "raw_tokens_total", "view_tokens_total", "peak_view_tokens"),
    *("stable_tokens_total", "cached_tokens_total", "cost", "raw_cost", "offloads", "answered_compactions"),
    *("head_tokens_total", "raw_head_tokens_total", "view_cost", "raw_view_cost", "tools_offered"),
    *("compactions", "folds", "shortenings", "expansions", "recalls"),
)


# --- the bill


def test_a_bill_from_the_archive_is_the_one_the_context_kept(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """To the token and the hundredth of a price, over excerpts, an opened item, folds, by the prices of the session."""
    monkeypatch.setattr("memory_context.compaction.observation.activation.least_buffered", lambda window_tokens: 5_000)
    policy = ContextPolicy(
        token_budget=2_000,
        cache=CachePolicy(prices="openai-gpt-5"),
        learning=LearningPolicy(enabled=False),  # it asks when its job runs
    )

    async def work() -> ContextStats:
        async with MemoryStore(database_url) as store:
            context = MemoryContext("alice", "coder", "s", store, model_client=Light(choose()), policy=policy)
            for number in range(8):
                await say(context, f"Survey number {number}. " + "Mind every feather. " * 20)
                await add_step(context, report(f"owls {number}", 200 + 100 * number))
                await context.get_messages()
                await context.archive()
                newest = (await context.agent_memory.query(reader=None))[0]
                await say(context, f"And the 17th finding of {newest.key}?")
            await context.close()
            return context.stats

    stats = asyncio.run(work())
    command, counted = command_of(capsys, database_url), asdict(stats)
    bill = json.loads(command("stats", "s", "--json")[1])
    assert {name: bill[name] for name in RECORDED} == {name: counted[name] for name in RECORDED}
    assert bill["reservations"] == []
    assert counted["folds"]
    assert counted["expansions"]
    assert len(bill["calls"]) == counted["views"] > 8
    assert {call["mark"] for call in bill["calls"]} >= {"", "fold"}
    assert round(sum(call["cost"] for call in bill["calls"]), 2) == counted["cost"]
    assert bill["light_model"] == counted["light_model"]
    assert re.search(
        r" calls \(\d+ decisions, \d+ summaries, 1 title, \d+ observations\), .*; tokens of ", str(stats.light_model)
    )
    told = f"light model {stats.light_model}; in none of the other figures"
    assert told in " ".join(command("stats", "s")[1].split())


def test_a_bill_of_a_session_says_what_it_sent_and_what_that_saved(command: Command, lived: Lived, server: Server):
    """Exact also when everything was archived at its end; look-ups come from the audit trail."""
    looked_up = server.execute(  # other tests look up, too
        "SELECT count(*) FROM memory_context.agent_memory_events WHERE session_id = 'owls' AND kind = 'retrieved'",
        database_of(lived.url),
    )[0][0]
    bill = json.loads(command("stats", SESSION, "--json")[1])
    assert {name: bill[name] for name in RECORDED} == {name: getattr(lived.stats, name) for name in RECORDED}
    assert bill["saved_tokens"] == lived.stats.saved_tokens
    assert bill["events"]["retrieved"] == looked_up >= 1
    assert bill["light_model"]["decisions"]["calls"] == 0, "the rules decided"
    _, out, err = command("stats", SESSION)
    assert f"look-ups     {looked_up}: {looked_up} retrieved" in out
    assert "light model  no calls" in out
    assert f"cost         {lived.stats.relative_cost:.2f} of keeping everything" in out
    assert f"of messages  {lived.stats.relative_view_cost:.2f} without tools" in out
    assert "tokens of memory tools and instructions (offered: offload), " in out
    context, cost = lived.stats.cheapest_autogen_context
    assert bill["cheapest_autogen_context"] == [context, cost]
    assert f"AutoGen      {cost / lived.stats.raw_cost:.2f} by its cheapest context, {context}" in out
    assert len(out.splitlines()) == 14
    assert "Note" not in err


def test_views_of_earlier_versions_have_no_bill(
    capsys: pytest.CaptureFixture[str], database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Their records have no figures; that is told."""

    def record(meter: UsageMeter, transcript: Transcript, view: View, *, is_joined: bool = False) -> None:
        transcript.decide(ViewShown(transcript.end))

    async def begin() -> None:
        async with MemoryStore(database_url) as store, MemoryContext("alice", "coder", "s", store) as context:
            await say(context, "Survey the owls.")
            await context.get_messages()

    async def go_on() -> ContextStats:
        async with MemoryStore(database_url) as store, MemoryContext("alice", "coder", "s", store) as context:
            await say(context, "And the bats.")
            await context.get_messages()
            return context.stats

    with monkeypatch.context() as earlier:
        earlier.setattr(UsageMeter, "record", record)
        asyncio.run(begin())
    stats = asyncio.run(go_on())
    assert stats.views > 0
    _, out, err = command_of(capsys, database_url)("stats", "s")
    assert f"model calls  {stats.views}\n" in out
    assert "Note: not counted, since an earlier version recorded no figures: 2 views." in err


def test_import_refuses_a_batch_that_is_not_part_of_a_transcript(database_url: str):
    """Whoever wrote it: an error in words."""

    async def work() -> Archived:
        async with MemoryStore(database_url) as store, MemoryContext("alice", "coder", "s", store) as context:
            await say(context, "Hello?")
            await context.archive()
            return await store.conversations.read(SessionKey("alice", "coder", "s"))

    archived = asyncio.run(work())
    spoiled = replace(archived, batches=[replace(archived.batches[0], body={"entries": []})])
    with pytest.raises(ValueError, match="cannot be read"):
        whole_history(spoiled)


def test_stats_of_a_user_say_what_is_stored(command: Command, lived: Lived):
    """By type and source, private items too."""
    _, out, _ = command("stats")
    assert "stored  5 items with " in out
    assert "1 of them private to a sub-agent" in out
    assert "said    9 messages of agents, 2 chat messages in 1 session" in out
    account = json.loads(command("stats", "--json")[1])
    kinds = {(kind["memory_type"], kind["source"]): kind["items"] for kind in account["kinds"]}
    assert kinds[("action_result", "survey")] == 3
    assert sum(kinds.values()) == 5


# --- the view


def test_explain_tells_what_the_context_itself_does(command: Command, lived: Lived):
    """The same segments, changes and decisions of the last view, from the archive alone."""
    seen = json.loads(command("sessions", SESSION, "--explain", "--json")[1])
    own = json.loads(json.dumps(asdict(lived.report)))
    assert seen.pop("remarks") == []
    assert seen == own
    _, out, _ = command("sessions", SESSION, "--explain")
    assert "the model saw last: " in out
    assert "placeholder   result      survey" in out


def test_a_missing_batch_is_told_and_the_rest_is_shown(
    capsys: pytest.CaptureFixture[str], database_url: str, server: Server
):
    """The bill ends before the gap."""

    async def work() -> None:
        async with MemoryStore(database_url) as store:
            context = MemoryContext("alice", "coder", "s", store)
            for text in ("one", "two", "three"):
                await say(context, text)
                await context.archive()
            await context.close()

    asyncio.run(work())
    server.execute(
        "DELETE FROM memory_context.recent_conversation_history WHERE sequence = 1", database_of(database_url)
    )
    command = command_of(capsys, database_url)
    _, out, err = command("stats", "s")
    assert "model calls  1" in out
    assert "Note: batches 2 are not counted: they are damaged, or come after what is missing." in err
