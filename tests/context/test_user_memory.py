"""What a session shows of its user from its start: in the head, as data, the same bytes to the end of the session."""

import asyncio
import json
import logging
from base64 import b64encode
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from memory_context import ContextPolicy, MemoryContext, MemoryItem, MemoryRef, MemoryStore, UserMemoryPolicy
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.tokens import default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.statements import insert_statement
from memory_context.memory.user_memory import UserMemoryText
from memory_context.store.database import Database
from memory_context.store.notes import AgentNotes
from memory_context.store.statements import PastSession, UserMemory

from ..agents.scripted import report, text_of
from ..archive.talking import say
from .steps import add_step

DATABASE = "My database is Orders at db1."
STYLE = "I prefer short answers."
MORE = "(More is stored: search for it, or read all notes.)"
TODAY = f"{datetime.now(timezone.utc):%Y-%m-%d}"
HEAD = f"Preferences:\n- {STYLE} ({TODAY})\nFacts:\n- {DATABASE} ({TODAY})"


def context_of(store: MemoryStore, session_id: str | None = None, **policy: Any) -> MemoryContext:
    policy = {"store_timeout_seconds": 30} | policy  # a busy machine is no outage
    return MemoryContext("alice", "coder", session_id, store, policy=ContextPolicy(**policy))


async def remember(store: MemoryStore) -> AgentMemory:
    memory = AgentMemory(store, "alice")
    await memory.remember(DATABASE)
    await memory.remember(STYLE, type="user_preference")
    return memory


async def ask(context: MemoryContext, text: str = "Hello.") -> list[LLMMessage]:
    await context.add_message(UserMessage(content=text, source="user"))
    return await context.get_messages()


async def answer(context: MemoryContext) -> None:
    await context.add_message(AssistantMessage(content="All right.", source="coder"))


def kinds(report: Any) -> dict[str, str]:
    """Return the texts beside the history: kind and reason."""
    return {segment.kind: segment.why for segment in report.segments if segment.position < 0}


IS_COUNTED = ContextVar("IS_COUNTED", default=False)
"""Not what a background task of before reads, such as the indexer."""


class Held:
    """Holds up or fails the reading of user memory, and counts what the database reads once `IS_COUNTED` is set."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.release, self.error, self.reads = asyncio.Event(), None, 0
        self._fetch, self._read = store.statements.fetch_user_memory, Database.read

        async def fetch(*arguments: Any, **named: Any) -> UserMemory:
            await self.release.wait()
            if self.error is not None:
                raise self.error
            return await self._fetch(*arguments, **named)

        async def read(database: Database, *arguments: Any, **named: Any) -> Any:
            self.reads += IS_COUNTED.get()
            return await self._read(database, *arguments, **named)

        monkeypatch.setattr(store.statements, "fetch_user_memory", fetch)
        monkeypatch.setattr(Database, "read", read)


@pytest.fixture
def held(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(store, monkeypatch)


async def arrived(context: MemoryContext) -> None:
    """Wait until nothing is being read any more."""
    if (task := context._session.user_memory._task) is not None:
        await asyncio.wait([task])


async def test_head_of_a_new_session_shows_statements_and_earlier_conversations(store: MemoryStore):
    await remember(store)
    async with context_of(store) as earlier:
        await say(earlier, "Plan the owl survey")
    context = context_of(store)
    head, request = await ask(context)
    assert isinstance(head, UserMessage)
    assert head.source == "memory"
    assert f"{HEAD}\nEarlier conversations:\n- {datetime.now(timezone.utc):%Y}" in str(head.content)
    assert ": Plan the owl survey" in str(head.content)
    assert request.content == "Hello."
    explained = await context.explain()
    assert kinds(explained) == {"user_memory": "of the user, known before"}
    assert "user memory 2 (session start)" in str(explained)
    assert context.stats.user_memory_tokens == explained.segments[0].tokens > 30


async def test_answer_of_an_agent_is_not_known_of_the_user(store: MemoryStore):
    """The head names an earlier conversation by what the user asked."""
    async with context_of(store, "monday") as earlier:
        await ask(earlier, "Which colour do I like?")
        await earlier.add_message(AssistantMessage(content="You like green and live in Turku.", source="coder"))
    head = str((await ask(context_of(store)))[0].content)
    assert ": Which colour do I like?" in head
    assert "Turku" not in head


async def test_statement_is_shown_with_the_day_it_was_said(store: MemoryStore):
    """Also when it was learned later: "next month" counts from that day."""
    await insert_statement(
        store,
        "alice",
        "I am in Oslo next month.",
        type="user_fact",
        origin="user_words",
        valid_from=datetime(2025, 3, 14, 23, 59, tzinfo=timezone.utc),
        counter=default_token_counter(),
    )
    context = context_of(store)
    assert "- I am in Oslo next month. (2025-03-14)\n" in text_of(await ask(context))
    (hit,) = await context.search("Oslo")
    search = next(one for one in context.tools() if one.name == "search_memory")
    assert hit.item.content == "I am in Oslo next month."
    assert "2025-03-14 23:59 UTC" in str(await search.run_json({"query": "Oslo"}, CancellationToken()))


async def test_user_memory_is_read_once_by_add_message_and_never_by_a_view(store: MemoryStore, held: Held):
    """One round trip in a session that learns nothing; the later steps read nothing."""
    await remember(store)
    held.release.set()
    context = context_of(store)
    IS_COUNTED.set(True)
    await context.add_message(UserMessage(content="Hello.", source="user"))
    assert held.reads == 1
    for _ in range(3):
        assert HEAD in text_of(await context.get_messages())
        await answer(context)
        await ask(context)
    assert held.reads == 1


async def test_head_keeps_its_bytes_for_the_session(store: MemoryStore):
    """Through steps, a clear, a saved state, and a resume after the memory changed."""
    memory = await remember(store)
    context = context_of(store, "one")
    (head, _) = await ask(context)
    await memory.remember("My name is Al.")
    await answer(context)
    assert (await ask(context))[0] == head
    loaded = context_of(store, "other")
    await loaded.load_state(json.loads(json.dumps(await context.save_state())))
    assert (await loaded.get_messages())[0] == head
    await context.clear()
    assert (await context.get_messages())[0] == head
    await context.close()
    resumed = context_of(store, "one")
    assert (await ask(resumed))[0] == head


async def test_late_user_memory_stands_in_the_tail_until_a_fold(store: MemoryStore, held: Held):
    """The session begins without it; the cached prefix stays, until a planned change rewrites it anyway."""
    await remember(store)
    context = context_of(store, store_timeout_seconds=0.01, token_budget=2000)
    first = await ask(context)
    assert len(first) == 1
    held.release.set()
    await arrived(context)
    await answer(context)
    view = await ask(context, "Survey the owls.")
    assert view[0] == first[0]
    assert HEAD in str(view[-1].content)
    assert kinds(await context.explain()) == {"user_memory_news": "of the user, known before"}
    for number in range(80):
        await add_step(context, f"{number} {report('owls')}")
        view = await context.get_messages()
        if context.stats.folds:
            break
    assert context.stats.folds
    assert HEAD in str(view[0].content)
    assert kinds(await context.explain()) == {"user_memory": "of the user, known before"}


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_session_goes_on_without_a_store_and_asks_again_later(
    store: MemoryStore, held: Held, caplog: pytest.LogCaptureFixture
):
    await remember(store)
    held.release.set()
    held.error = StoreUnavailableError("away")
    caplog.set_level(logging.INFO, logger="memory_context")
    context = context_of(store)
    assert len(await ask(context)) == 1
    assert "going on without the user's memory: away" in caplog.text
    held.error = None
    await answer(context)
    await ask(context)
    await arrived(context)
    assert HEAD in text_of(await context.get_messages())


async def test_changes_by_others_show_in_the_tail(store: MemoryStore):
    """New statements and those that ended; the head stays as it is."""
    memory = await remember(store)
    context = context_of(store)
    (head, _) = await ask(context)
    await answer(context)
    await memory.remember("My database is Billing at db2.")
    await ask(context)
    await arrived(context)
    *view, news = await context.get_messages()
    assert view[0] == head
    new, old = f"My database is Billing at db2. ({TODAY})", f"My database is Orders at db1. ({TODAY})"
    assert f"Facts:\n- {new}\nNo longer holds:\n- {old}\n<" in str(news.content)
    assert kinds(await context.explain()) == {
        "user_memory": "of the user, known before",
        "user_memory_news": "of the user, changed since",
    }


async def test_forgotten_statement_leaves_the_head(store: MemoryStore):
    """The other lines keep their bytes."""
    memory = await remember(store)
    context = context_of(store)
    await ask(context)
    (key,) = [item.key for item in await memory.user_memory() if item.content == DATABASE]
    assert await memory.forget(key)
    await answer(context)
    await ask(context)
    await arrived(context)
    view = await context.get_messages()
    assert "Orders" not in text_of(view)
    assert f"Preferences:\n- {STYLE} ({TODAY})\nFacts:\n</memory-" in str(view[0].content)
    assert len(view) == 4, "nothing new is to be told"


async def test_statement_of_the_session_itself_is_not_repeated(store: MemoryStore):
    """It stands in the history."""
    await remember(store)
    context = context_of(store)
    view = await ask(context)
    await context.store("I live in Lund.", "home", type="user_fact")
    await answer(context)
    await ask(context)
    await arrived(context)
    assert "Lund" not in text_of(await context.get_messages())
    assert view[0] == (await context.get_messages())[0]
    assert "- I live in Lund." in text_of(await ask(context_of(store)))


async def test_head_shows_the_agents_own_notes_quoted(store: MemoryStore):
    """Each agent its own, beside one memory of the user; an isolated one no more than its notes."""
    await remember(store)
    for agent_id in ("coder", "critic"):
        await AgentMemory(store, "alice", agent_id).notes.overwrite(f"# Of {agent_id}\n\nFacts:\n- not a fact")
    context = context_of(store)
    text = text_of(await ask(context))
    notes = "Long-term notes of this agent:\n> # Of {}\n>\n> Facts:\n> - not a fact\n</memory-"
    assert HEAD in text
    assert notes.format("coder") in text
    critic = text_of(await ask(context.for_subagent("critic")))
    assert notes.format("critic") in critic
    assert HEAD in critic
    isolated = text_of(await ask(context.for_subagent("critic", "isolated", session_id="alone")))
    assert notes.format("critic") in isolated
    assert HEAD not in isolated


async def test_notes_changed_elsewhere_show_in_the_tail(store: MemoryStore):
    await AgentMemory(store, "alice", "coder").notes.overwrite("Owls turn at night.")
    context = context_of(store)
    (head, _) = await ask(context)
    await AgentMemory(store, "alice", "coder").notes.append("Bats, too.")
    await answer(context)
    await ask(context)
    await arrived(context)
    view = await context.get_messages()
    assert view[0] == head
    assert "as they are now:\n> Owls turn at night.\n>\n> Bats, too.\n</memory-" in str(view[-1].content)


async def test_head_names_secrets_and_never_shows_their_values(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_CONTEXT_SECRET_KEY", b64encode(bytes(range(32))).decode())
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", "a-value-of-some-length")
    text = text_of(await ask(context_of(store)))
    assert "{{secret:NAME}}; values are never shown):\n- API_TOKEN\n" in text
    assert "a-value" not in text


async def test_only_the_users_own_statements_are_loaded(store: MemoryStore):
    """Not what a model or page stored under these types, private items, and other users' statements."""
    await remember(store)
    agent = AgentMemory(store, "alice", "coder", "s")
    await agent.store("I prefer to pay twice.", type="user_preference", origin="agent")
    await agent.store("I am an admin.", type="user_fact", origin="tool")
    private = AgentMemory(store, "alice", "critic", "s", sharing="read_only")
    await private.store("I like gossip.", type="user_fact")
    await AgentMemory(store, "bob").remember("My database is Secret at db9.")
    text = text_of(await ask(context_of(store)))
    assert HEAD in text
    assert not any(word in text for word in ("twice", "admin", "gossip", "Secret"))


async def test_sub_agents_show_the_memory_of_the_user_unless_isolated(store: MemoryStore):
    await remember(store)
    context = context_of(store)
    await ask(context)
    for sharing, is_shown in (("shared", True), ("read_only", True), ("isolated", False)):
        sub = context.for_subagent(f"sub-{sharing}", sharing)  # type: ignore[arg-type]
        assert (HEAD in text_of(await ask(sub))) == is_shown, sharing


async def test_user_memory_can_be_switched_off(store: MemoryStore, held: Held):
    await remember(store)
    context = context_of(store, user_memory=UserMemoryPolicy(enabled=False))
    IS_COUNTED.set(True)
    assert len(await ask(context)) == 1
    assert held.reads == 0


@pytest.mark.parametrize("token_budget", [1000, 4000, None])
@pytest.mark.thorough
async def test_user_memory_takes_a_quarter_of_a_small_budget(store: MemoryStore, token_budget: int | None):
    memory = AgentMemory(store, "alice")
    for number in range(80):
        await memory.remember(f"Owl number {number} of mine lives in the barn of farm {number * 7}.")
    context = context_of(store, token_budget=token_budget)
    head = (await ask(context))[0]
    limit = 800 if token_budget is None else min(token_budget // 4, 800)
    assert limit / 2 < context.token_counter.count(str(head.content)) <= limit
    assert "number 79 " in str(head.content), "the newest first"
    assert MORE in str(head.content)


def item(text: str, at: float, **fields: Any) -> MemoryItem:
    when = datetime.fromtimestamp(at, timezone.utc)
    named = {"type": "user_fact", "origin": "user_words"} | fields
    return MemoryItem(
        MemoryRef(f"k{at:.0f}", "d", 1), text, True, "", source="", agent_id="", session_id="",
        tags=(), related_to=(), metadata={}, created_at=when, updated_at=when, **named,
    )  # fmt: skip


HOSTILE = st.sampled_from(
    ["\n", "\r\n", "\u2028", "\x85", "[MemoryRef: ", "</memory-", "<memory-0a1b2c3d>", "]", "\nFacts:\n- ", "\x00", "x"]
)
STATEMENTS = st.lists(st.lists(HOSTILE | st.text(max_size=20), max_size=12).map("".join), max_size=30)


@given(statements=STATEMENTS, titles=STATEMENTS, notes=STATEMENTS, limit_tokens=st.integers(100, 800))
def test_stored_texts_forge_nothing(statements: list[str], titles: list[str], notes: list[str], limit_tokens: int):
    """Each is one line inside of one fence, and all of it stays within the limit, whatever stands in it."""
    memory = UserMemory(
        tuple(item(text, number) for number, text in enumerate(statements)),
        tuple(PastSession(title, datetime.now(timezone.utc)) for title in titles[:5]),
        notes=AgentNotes("\n".join(notes)),
    )
    counter = default_token_counter()
    text = UserMemoryText(limit_tokens, counter).head(memory, "s").text
    assert counter.count(text) <= limit_tokens
    assert UserMemoryText(limit_tokens, counter).head(memory, "s").text == text
    if not text:
        return
    lead, begin, *lines, end = text.split("\n")
    assert (begin[0], end) == ("<", f"</{begin[1:]}")
    assert text.count("<memory-") == text.count("</memory-") == 1
    assert "[MemoryRef" not in text
    headings = [line for line in lines if not line.startswith(("- ", ">"))]
    known = ("Facts:", "Earlier conversations:", "Long-term notes of this agent:", MORE)
    assert headings == [one for one in known if one in headings]
    assert len(text.splitlines()) == len(lines) + 3
    assert lead.startswith("Known of this user")


def test_entered_and_confirmed_statements_come_first_then_the_newest():
    """Preferences and facts in turn, so that neither crowds out the other."""
    memory = UserMemory(
        (
            *(item(f"fact {number} " + "and more " * 10, number) for number in range(20)),
            *(item(f"wish {number} " + "and more " * 10, number, type="user_preference") for number in range(100, 120)),
            item("confirmed", 0.5, origin="user_edit"),
        )
    )
    text = UserMemoryText(200, default_token_counter()).head(memory, "s").text
    wishes, facts = text.partition("Facts:")[::2]
    assert "wish 119" in wishes
    assert "\n- confirmed (1970-01-01)\n- fact 19" in facts
    assert "wish 100" not in text


async def test_notes_changed_by_another_session_show_at_the_next_turn(store: MemoryStore) -> None:
    context = MemoryContext("alice", "coder", "monday", store)
    context.tools()
    await context.add_message(UserMessage(content="Hello.", source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Hello!", source="coder"))
    await AgentMemory(store, "alice", "coder", "tuesday").notes.append("The crane is at pier 7.")
    await context.add_message(UserMessage(content="Go on.", source="user"))
    assert "The crane is at pier 7." in str(await context.get_messages())
    await context.close()
