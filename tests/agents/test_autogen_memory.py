"""PostgresMemory behind AutoGen's Memory protocol: with MemoryContext and with AutoGen's own contexts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import ComponentLoader, Image
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from PIL import Image as PILImage

from memory_context import ContextPolicy, ExpansionPolicy, MemoryContext, MemoryCriteria, MemoryStore, PostgresMemory
from memory_context.foundation.errors import StoreUnavailableError

from ..context.lights import Light, Reads, choose
from .scripted import model, report, seen, text_of

FACTS = {
    "lunch": "The team lunch is every Thursday at Luigi's; the table is booked for eleven people.",
    "bucket": "Deployments go to Frankfurt. The deployment bucket is called deploy-eu.",
    "owl": "The office owl is named Minerva and is fed mice at noon.",
    "printer": "The printer on floor three wants its toner from drawer nine.",
    "parking": "Visitors park behind the bakery; the gate code changes monthly.",
}
QUESTIONS = {
    "lunch": "Where is the team lunch on Thursday?",
    "bucket": "What is the deployment bucket called?",
    "owl": "What is the office owl fed?",
    "printer": "Where is the toner of the printer?",
    "parking": "Where do visitors park?",
}


async def memory_of(store: MemoryStore, **arguments) -> PostgresMemory:
    """Return a memory with five facts in it."""
    memory = PostgresMemory("alice", memory_store=store, **arguments)
    for name, fact in FACTS.items():
        await memory.add(MemoryContent(content=fact, mime_type=MemoryMimeType.TEXT, metadata={"source": name}))
    await store.flush_index()
    return memory


def contexts(store: MemoryStore) -> list[ChatCompletionContext]:
    policy = ContextPolicy(expansion=ExpansionPolicy(enabled=False))
    return [
        MemoryContext("alice", "coder", None, store, policy=policy),
        UnboundedChatCompletionContext(),
        BufferedChatCompletionContext(buffer_size=6),
        HeadAndTailChatCompletionContext(head_size=2, tail_size=4),
    ]


def shown(view: list[LLMMessage]) -> list[str]:
    return [str(m.content) for m in view if isinstance(m, UserMessage) and m.source == "memory"]


async def test_added_memory_is_found_with_its_metadata(store: MemoryStore):
    """Text, Markdown and JSON; the best first; by limit and by criteria."""
    memory = PostgresMemory("alice", "coder", store, name="facts")
    assert isinstance(memory, Memory)
    await memory.add(
        MemoryContent(
            content=FACTS["lunch"],
            mime_type=MemoryMimeType.TEXT,
            metadata={"description": "the lunch", "tags": ["food"], "type": "user_fact", "by": {"name": "Ann"}},
        )
    )
    await memory.add(MemoryContent(content="# Lunch menu\n\n- owls", mime_type=MemoryMimeType.MARKDOWN))
    await memory.add(MemoryContent(content={"lunch": {"soup": "ümlaut"}}, mime_type=MemoryMimeType.JSON))
    found = (await memory.query("Where is the team lunch on Thursday?")).results
    assert found[0].content == FACTS["lunch"]
    metadata = found[0].metadata or {}
    assert metadata["description"] == "the lunch"
    assert (metadata["type"], metadata["tags"], metadata["by"]) == ("user_fact", ["food"], {"name": "Ann"})
    assert (metadata["start_line"], metadata["end_line"], metadata["source"]) == (1, 1, "facts")
    assert json.loads(json.dumps(metadata)) == metadata
    assert len((await memory.query("lunch", limit=1)).results) == 1
    assert len((await memory.query(MemoryContent(content="lunch", mime_type="text/plain"))).results) == 3
    tagged = await memory.query("lunch", criteria=MemoryCriteria(tags=("food",)))
    assert [one.content for one in tagged.results] == [FACTS["lunch"]]
    assert {(one.metadata or {})["mime_type"] for one in (await memory.query("lunch")).results} == {
        "text/plain",
        "text/markdown",
        "application/json",
    }
    kinds = {str(one.mime_type): one.content for one in (await memory.query("lunch")).results}
    assert kinds[str(MemoryMimeType.JSON)] == {"lunch": {"soup": "ümlaut"}}
    assert str(kinds[str(MemoryMimeType.MARKDOWN)]).startswith("# Lunch menu")
    own = {"score": 5, "start_line": "mine"}
    await memory.add(MemoryContent(content="the lunch on Friday", mime_type=MemoryMimeType.TEXT, metadata=own))
    given = (await memory.query("the lunch on Friday", limit=1)).results[0].metadata or {}
    assert (given["score"], given["start_line"]) == (5, "mine"), "what the application gave stays"
    with pytest.raises(ValueError, match="limit=0"):
        await memory.query("lunch", limit=0)
    assert (await PostgresMemory("bob", memory_store=store).query("lunch")).results == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            MemoryContent(content=b"\x00", mime_type=MemoryMimeType.BINARY),
            "application/octet-stream cannot be searched",
        ),
        (
            MemoryContent(content=Image(PILImage.new("RGB", (2, 2))), mime_type=MemoryMimeType.IMAGE),
            "a memory of image/. cannot be searched",
        ),
        (MemoryContent(content="x", mime_type="text/plain", metadata={"when": {1, 2}}), "metadata"),
        (MemoryContent(content="x", mime_type="text/plain", metadata={"tags": "one"}), "tags='one'"),
        (MemoryContent(content="x", mime_type="text/plain", metadata={"type": "two words"}), "type='two words'"),
        (MemoryContent(content="[1, 2]", mime_type=MemoryMimeType.JSON), "has to be a JSON object"),
        (MemoryContent(content="{broken", mime_type="application/json"), "has to be a JSON object"),
        (MemoryContent(content="x", mime_type="text/plain", metadata={"source": 5}), "source=5"),
        (MemoryContent(content="x", mime_type="text/plain", metadata={"description": 5}), "description=5"),
    ],
)
async def test_store_memory_refuses_unusable_items_in_words(store: MemoryStore, content: MemoryContent, message: str):
    """And nothing is stored."""
    memory = PostgresMemory("alice", memory_store=store)
    with pytest.raises(ValueError, match=message):
        await memory.add(content)
    assert await memory.agent_memory.query() == []


async def test_limits_are_checked(store: MemoryStore):
    """When the memory is made."""
    with pytest.raises(ValueError, match="limit=0"):
        PostgresMemory("alice", memory_store=store, limit=0)
    with pytest.raises(ValueError, match="limit_tokens=5"):
        PostgresMemory("alice", memory_store=store, limit_tokens=5)


@pytest.mark.parametrize("index", range(4))
async def test_five_turns_show_one_message_of_the_memory_each(store: MemoryStore, index: int):
    """The one for the newest question, after it; nothing piles up, nothing is lost or doubled."""
    context = contexts(store)[index]
    memory = await memory_of(store)
    client = model(*[f"Answer to {name}." for name in QUESTIONS])
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    for turn, (name, question) in enumerate(QUESTIONS.items()):
        await agent.run(task=question)
        view = seen(client)[1:]
        (told,) = shown(view)
        assert FACTS[name] in told
        assert told.startswith("Found in postgres_memory for this conversation. ")
        assert isinstance(view[-1], UserMessage)
        assert (view[-1].source, view[-2].content) == ("memory", question)
        if index < 2:
            said = [m.content for m in view if getattr(m, "source", "") != "memory"]
            before = [words for n in list(QUESTIONS)[:turn] for words in (QUESTIONS[n], f"Answer to {n}.")]
            assert said == [*before, question]


@pytest.mark.parametrize("index", range(4))
async def test_nothing_is_shown_when_nothing_is_relevant(store: MemoryStore, index: int):
    """And what was shown before goes."""
    context = contexts(store)[index]
    memory = await memory_of(store)
    client = model("One.", "Two.")
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    await agent.run(task=QUESTIONS["owl"])
    assert len(shown(seen(client))) == 1
    await agent.run(task="Zwölf Boxkämpfer jagen Viktor")
    assert shown(seen(client)) == []
    assert (await memory.update_context(context)).memories.results == []


@pytest.mark.parametrize("index", range(4))
async def test_the_same_passages_stay_where_they_are(store: MemoryStore, index: int):
    """So that the prefix of the next call is that of the last one."""
    context = contexts(store)[index]
    memory = await memory_of(store, limit=1)
    client = model("Mice.", "At noon.")
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    await agent.run(task=QUESTIONS["owl"])
    before = seen(client)
    await agent.run(task=QUESTIONS["owl"])
    assert seen(client)[: len(before)] == before
    assert len(shown(seen(client))) == 1


async def test_memories_that_the_conversation_holds_are_not_shown(store: MemoryStore):
    """Also if it was brought back by the turn itself."""
    memory = await memory_of(store)
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(UserMessage(content=f"I know: {FACTS['owl']} What is the owl fed?", source="user"))
    await memory.update_context(context)
    assert not any(FACTS["owl"] in text for text in shown(await context.get_messages()))

    recalling = MemoryContext("alice", "coder", None, store)
    await recalling.add_message(UserMessage(content="Where did we say the team lunch is?", source="user"))
    await memory.update_context(recalling)
    assert text_of(await recalling.get_messages()).count(FACTS["lunch"]) == 1


@pytest.mark.parametrize("index", range(4))
async def test_only_its_own_messages_are_taken_out(store: MemoryStore, index: int):
    """An agent may be called memory, and an agent may have two memories."""
    context = contexts(store)[index]
    first, second = await memory_of(store), await memory_of(store, name="team")
    await context.add_message(UserMessage(content="I am the agent called memory.", source="memory"))
    await context.add_message(UserMessage(content=QUESTIONS["owl"], source="user"))
    for _ in range(3):
        await first.update_context(context)
        await second.update_context(context)
    view = await context.get_messages()
    assert [text.split(".")[0] for text in shown(view)] == [
        "I am the agent called memory",
        "Found in postgres_memory for this conversation",
    ], "what the first one shows the second one need not"
    await first.clear()
    for memory in (first, second):
        await memory.update_context(context)
    assert shown(await context.get_messages()) == ["I am the agent called memory."]


class OpaqueContext(UnboundedChatCompletionContext):
    """One whose saved state names its messages otherwise."""

    async def save_state(self) -> Mapping[str, Any]:
        """Return it."""
        return {"history": [message.model_dump() for message in self._messages]}


async def test_a_context_whose_state_has_no_messages_gets_one_message(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    """It stays, as nothing can take it out; said once."""
    memory, context = await memory_of(store), OpaqueContext()
    for question in QUESTIONS.values():
        await context.add_message(UserMessage(content=question, source="user"))
        await memory.update_context(context)
        assert len(shown(await context.get_messages())) == 1
    warnings = [r.getMessage() for r in caplog.records if "cannot be replaced" in r.getMessage()]
    assert len(warnings) == 1
    assert "OpaqueContext" in warnings[0]


async def test_shown_memories_respect_their_limit(store: MemoryStore):
    """A whole report is no memory message."""
    memory = PostgresMemory("alice", memory_store=store, limit_tokens=300)
    await memory.add(MemoryContent(content=report("owls", 2000), mime_type=MemoryMimeType.TEXT))
    await store.flush_index()
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(UserMessage(content="What is owls finding 1500?", source="user"))
    result = await memory.update_context(context)
    (text,) = shown(await context.get_messages())
    assert context.token_counter.count(text) <= 300
    assert len(result.memories.results) == 1


@pytest.mark.parametrize("index", range(4))
async def test_an_agent_goes_on_while_the_memory_is_away(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, index: int
):
    """Said once; found out once in a while."""
    context = contexts(store)[index]
    memory = await memory_of(store)
    reads = Reads(store, monkeypatch)
    reads.error = StoreUnavailableError("the store is gone")
    client = model("One.", "Two.")
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    await agent.run(task="Say what is in drawer nine.")
    await agent.run(task="Say what is in drawer ten.")
    said = [m.content for m in seen(client)[1:]]
    assert said == ["Say what is in drawer nine.", "One.", "Say what is in drawer ten."]
    warnings = [r.getMessage() for r in caplog.records if "without memories" in r.getMessage()]
    assert warnings == ["going on without memories for now: the store is gone"]


async def test_a_memory_that_hangs_is_not_waited_for_for_ever(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """The agent gets its turn."""
    memory = await memory_of(store)
    monkeypatch.setattr("memory_context.context.autogen_memory._SEARCH_SECONDS", 0.1)
    reads = Reads(store, monkeypatch)
    reads.release.clear()
    context = UnboundedChatCompletionContext()
    await context.add_message(UserMessage(content=QUESTIONS["owl"], source="user"))
    assert (await memory.update_context(context)).memories.results == []
    assert len(await context.get_messages()) == 1


async def test_clear_erases_what_was_added_and_nothing_else(store: MemoryStore):
    """Items of sessions stay, and those of other agents."""
    session = MemoryContext("alice", "coder", None, store)
    key = await session.store("a note of the session", "a note")
    memory, other = PostgresMemory("alice", "coder", store), PostgresMemory("alice", "critic", store)
    for one in (memory, other):
        await one.add(MemoryContent(content="a memory to keep", mime_type=MemoryMimeType.TEXT))
    await memory.clear()
    assert await session.retrieve(key) == "a note of the session"
    assert [item.agent_id for item in await memory.agent_memory.query()] == ["critic", "coder"]


async def test_a_component_names_no_secret_and_loads(database_url: str, store: MemoryStore, monkeypatch):
    """Within an agent's component, too."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)
    memory = PostgresMemory("alice", "coder", name="facts", limit=2, limit_tokens=500, type="user_fact")
    await memory.add(MemoryContent(content=FACTS["owl"], mime_type=MemoryMimeType.TEXT))
    agent = AssistantAgent("coder", model("Mice."), memory=[memory], model_context=UnboundedChatCompletionContext())
    component = json.loads(agent.dump_component().model_dump_json())
    assert memory.dump_component().config == {
        "user_id": "alice",
        "agent_id": "coder",
        "name": "facts",
        "limit": 2,
        "limit_tokens": 500,
        "type": "user_fact",
        "memory_store": {},
    }
    await memory.close()
    del memory, agent
    loaded = ComponentLoader.load_component(component, AssistantAgent)
    await loaded.run(task=QUESTIONS["owl"])
    assert FACTS["owl"] in text_of(await loaded.model_context.get_messages())
    (loaded_memory,) = loaded._memory or []  # pyright: ignore[reportPrivateUsage]
    await loaded_memory.close()


async def test_a_light_model_is_asked_once_although_the_memory_looks_first(store: MemoryStore):
    """get_messages is called twice for one model call."""
    memory = await memory_of(store)
    light = Light(choose(ambiguous=False))
    context = MemoryContext("alice", "coder", None, store, model_client=light)
    client = model("Luigi's.", "Mice.")
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    for name in ("lunch", "owl"):
        await agent.run(task=f"{QUESTIONS[name]} As we said last time.")
    assert len(light.prompts) == len(seen(client)) // 2 == 2
    assert context.stats.views == 2
    assert isinstance((await context.get_messages())[-1], AssistantMessage)
