"""Agents of one user that share their memory or not: as tools, in teams, by hand-off, loaded again."""

from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, ComponentLoader
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import ContextPolicy, ItemNotFoundError, MemoryContext, MemoryStore, Sharing

from .scripted import calls, model, report, seen, text_of

SHARINGS: list[Sharing] = ["shared", "read_only", "isolated"]
OWLS, BATS = report("owls"), report("bats")


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


def agent(
    context: MemoryContext, client: ReplayChatCompletionClient, *tools: Any, reflect: bool = True
) -> AssistantAgent:
    return AssistantAgent(
        context.agent_id,
        client,
        description=f"knows {context.agent_id}",
        tools=[*tools, *context.tools()],
        model_context=context,
        reflect_on_tool_use=reflect,
    )


async def retrieve(context: MemoryContext, key: str) -> str:
    """Return what the agent's model is answered."""
    tool = next(tool for tool in context.tools() if tool.name == "retrieve_memory")
    return await tool.run_json({"memory_key": key, "transform": "full"}, CancellationToken())


async def own_keys(context: MemoryContext) -> list[str]:
    """Return the keys of what an agent stored, as it sees them itself."""
    items = await context.agent_memory.query()
    return [item.key for item in items if item.agent_id == context.agent_id]


@pytest.fixture
def chief(store: MemoryStore) -> MemoryContext:
    return MemoryContext("alice", "chief", "s", store)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.thorough
async def test_a_reference_handed_to_a_tool_agent_opens_if_sharing_allows_it(chief: MemoryContext, sharing: Sharing):
    """Its own look-up answers with the content, or with whom to ask; the agent sees either."""
    key = await chief.store(OWLS, "survey of owls")
    expert = chief.for_subagent("expert", sharing)
    expert_client = model(calls(("retrieve_memory", {"memory_key": key})), "I have looked.")
    client = model(calls(("expert", {"task": f"Look at the survey {key}."})), "Done.")
    await agent(chief, client, AgentTool(agent(expert, expert_client))).run(task="Have the owls looked at.")
    answer = text_of(seen(expert_client)[-1:])
    first_view = text_of(seen(expert_client, 0))
    if sharing == "isolated":
        assert (
            f"item {key!r} belongs to another agent, agent 'chief' (session 's'), and this agent is isolated" in answer
        )
        assert "owls finding" not in first_view + answer
    else:
        assert "owls finding 0: value 0" in answer
        assert "owls finding" in first_view  # opened by itself, since the task named it


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_sharing_decides_who_reads_items_of_a_tool_agent(chief: MemoryContext, sharing: Sharing):
    """Tool results count like what it stores on purpose; the refusal is the same for code and for the model."""
    expert = chief.for_subagent("expert", sharing)
    expert_client = model(calls(("survey", {"topic": "bats"})), "Bats are surveyed.")
    client = model(calls(("expert", {"task": "Survey bats."})), "Done.")
    await agent(chief, client, AgentTool(agent(expert, expert_client, survey))).run(task="Have the bats surveyed.")
    (key,) = await own_keys(expert)
    assert await expert.retrieve(key) == BATS
    if sharing == "shared":
        assert await chief.retrieve(key) == BATS
        assert "bats finding 0" in await retrieve(chief, key)
        return
    refusal = f"item {key!r} is private to agent 'expert' (session 's/expert'): ask it to include the content"
    with pytest.raises(ItemNotFoundError) as refused:
        await chief.retrieve(key)
    assert str(refused.value) == refusal
    assert refusal in await retrieve(chief, key)
    assert await chief.search("bats finding 7") == []
    found = [hit.item for hit in await expert.search("bats finding 7")]
    assert [item.key for item in found if item.type != "conversation"] == [key]


async def test_two_tool_agents_at_once_keep_apart(chief: MemoryContext):
    """Parallel calls of one message: each has its own transcript and session, and neither reads the other's."""
    experts = [chief.for_subagent(name, "read_only") for name in ("owls", "bats")]
    clients = [model(calls(("survey", {"topic": one.agent_id})), f"{one.agent_id} surveyed.") for one in experts]
    tools = [
        AgentTool(agent(one, client, survey), return_value_as_last_message=True)
        for one, client in zip(experts, clients, strict=True)
    ]
    client = model(calls(("owls", {"task": "Survey."}), ("bats", {"task": "Survey."})), "Both are there.")
    await agent(chief, client, *tools).run(task="Survey owls and bats.")
    assert [one.session_id for one in experts] == ["s/owls", "s/bats"]
    for one, other in (experts, experts[::-1]):
        (key,) = await own_keys(one)
        assert await one.retrieve(key) == report(one.agent_id)
        with pytest.raises(ItemNotFoundError, match=f"private to agent '{one.agent_id}'"):
            await other.retrieve(key)
        assert other.agent_id not in text_of(await one.get_messages()).replace(f"{one.agent_id} surveyed", "")
    assert "owls surveyed." in text_of(seen(client))
    assert "bats surveyed." in text_of(seen(client))


@pytest.mark.parametrize("sharing", ["shared", "read_only"])
async def test_an_answer_that_is_a_private_look_up_is_kept_whole(chief: MemoryContext, sharing: Sharing):
    """A tool agent that does not reflect answers with its look-up, word for word. Who can open what that is a look at
    needs no second item; who cannot must not be left with a reference that it cannot open."""
    expert = chief.for_subagent("expert", sharing)
    key = await expert.store(BATS, "survey of bats")
    expert_agent = agent(expert, model(calls(("retrieve_memory", {"memory_key": key}))), reflect=False)
    client = model(calls(("expert", {"task": "Look."})), "Done.", "Still done.")
    lead = agent(chief, client, AgentTool(expert_agent, return_value_as_last_message=True))
    await lead.run(task="Have it looked at.")
    await lead.run(task="And now?")
    assert "bats finding 100" in text_of(seen(client, 1))
    view = text_of(seen(client, 2))
    assert "bats finding 100" not in view
    if sharing == "shared":
        assert await own_keys(chief) == []
        assert key in view
    else:
        (kept,) = await own_keys(chief)
        assert kept in view
        assert "bats finding 100: value" in await chief.retrieve(kept)


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_a_team_shares_as_it_was_told(chief: MemoryContext, sharing: Sharing):
    """In a round robin one surveys, the other is asked by key; both contexts have the words of both."""
    writer = chief.for_subagent("writer", sharing)
    chief_client = model(calls(("survey", {"topic": "owls"})), "Owls are surveyed.")
    team = RoundRobinGroupChat(
        [agent(chief, chief_client, survey), agent(writer, model("I have written it up."))], max_turns=2
    )
    await team.run(task="Survey owls and write it up.")
    (key,) = await own_keys(chief)
    assert "Owls are surveyed." in text_of(await writer.get_messages())
    await writer.add_message(UserMessage(content=f"Now read {key}, please.", source="user"))
    view = text_of(await writer.get_messages())
    assert ("owls finding" in view) == (sharing != "isolated")
    assert ("owls finding 5:" in await retrieve(writer, key)) == (sharing != "isolated")


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_a_hand_off_shares_as_it_was_told(chief: MemoryContext, sharing: Sharing):
    """What the first has seen goes along in the messages; its items as far as sharing says, and back likewise."""
    second = chief.for_subagent("second", sharing)
    first_agent = AssistantAgent(
        "chief",
        model(calls(("survey", {"topic": "owls"})), calls(("transfer_to_second", {}))),
        tools=[survey, *chief.tools()],
        handoffs=[Handoff(target="second")],
        model_context=chief,
        max_tool_iterations=2,
    )
    second_agent = AssistantAgent(
        "second",
        model(calls(("survey", {"topic": "bats"})), "Both are surveyed."),
        tools=[survey, *second.tools()],
        handoffs=[Handoff(target="chief")],
        model_context=second,
        max_tool_iterations=2,
    )
    await Swarm([first_agent, second_agent], max_turns=2).run(task="Survey owls, then hand over.")
    contents = {"chief": OWLS, "second": BATS}
    reads = {"shared": {"chief", "second"}, "read_only": {"chief"}, "isolated": set[str]()}[sharing]
    (owls,) = [key for key in await own_keys(chief) if key.startswith("survey")]
    assert (await second.agent_memory.retrieve(owls) is not None) == ("chief" in reads)
    bats = [item.key for item in await second.agent_memory.query() if item.agent_id == "second"]
    assert contents["second"] in [await second.retrieve(key) for key in bats]
    for key in bats:
        assert (await chief.agent_memory.retrieve(key) is not None) == ("second" in reads)


async def recalled(context: MemoryContext, words: str) -> str:
    """Return what a request that leans on memory brings into the view."""
    await context.add_message(UserMessage(content=words, source="user"))
    return text_of([message for message in await context.get_messages() if getattr(message, "source", "") == "memory"])


async def test_recall_and_expansion_keep_to_what_may_be_read(chief: MemoryContext, store: MemoryStore):
    """The same words to each: what comes by itself, indexed or not, is what the agent may read."""
    secret = "The harbour master's number is 4711.\n"
    reader, hermit = chief.for_subagent("reader", "read_only"), chief.for_subagent("hermit", "isolated")
    keys = {
        context.agent_id: await context.store(f"{context.agent_id}: {secret}", f"harbour notes of {context.agent_id}")
        for context in (chief, reader, hermit)
    }
    may_read = {"chief": {"chief"}, "reader": {"chief", "reader"}, "hermit": {"hermit"}}
    for is_named in (False, True):
        for number, context in enumerate((chief, reader, hermit)):
            named = " ".join(keys.values()) if is_named else ""
            asks = f"What was the number of the harbour master again, as we noted last time? {named}"
            other = MemoryContext(
                "alice", context.agent_id, context.session_id, store, sharing=context.sharing,
                policy=ContextPolicy(),
            )  # fmt: skip
            shown = await recalled(other, asks)
            found = {name for name in keys if f"{name}: The harbour master's number" in shown}
            assert found <= may_read[context.agent_id], (number, is_named)
            assert found, (number, is_named)
            if is_named:
                assert found == may_read[context.agent_id]
        await store.flush_index()


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_a_dumped_sub_agent_shares_as_before(chief: MemoryContext, sharing: Sharing):
    """The component says it; one that was dumped before there was a choice shares everything."""
    key = await chief.store(OWLS, "survey of owls")
    expert = chief.for_subagent("expert", sharing)
    dumped = expert.dump_component()
    assert dumped.config["sharing"] == sharing
    loaded = ChatCompletionContext.load_component(dumped)
    assert isinstance(loaded, MemoryContext)
    assert (loaded.sharing, loaded.session_id, loaded.agent_id) == (sharing, "s/expert", "expert")
    assert (await loaded.agent_memory.retrieve(key) is not None) == (sharing != "isolated")
    own = await loaded.store("of the expert", "own")
    assert (await chief.agent_memory.retrieve(own) is not None) == (sharing == "shared")
    assert await expert.retrieve(own) == "of the expert"
    del dumped.config["sharing"]
    older = ComponentLoader.load_component(dumped, expected=MemoryContext)
    assert older.sharing == "shared"
    for context in (loaded, older):
        await context.close()


@pytest.mark.parametrize("sharing", SHARINGS)
async def test_a_saved_sub_agent_goes_on_as_before(chief: MemoryContext, sharing: Sharing):
    """In a new context of the same kind: its offloads are whole, and as private as they were."""
    expert = chief.for_subagent("expert", sharing)
    client = model(calls(("survey", {"topic": "bats"})), "Bats are surveyed.")
    await agent(expert, client, survey).run(task="Survey bats.")
    state = await expert.save_state()
    view = text_of(await expert.get_messages())
    later = chief.for_subagent("expert", sharing)
    await later.load_state(state)
    assert text_of(await later.get_messages()) == view
    (key,) = await own_keys(later)
    assert await later.retrieve(key) == BATS
    assert (await chief.agent_memory.retrieve(key) is not None) == (sharing == "shared")
    await later.store("stored after loading", "more")
    assert len(await later.agent_memory.query()) == 2
    assert len(await chief.agent_memory.query()) == (2 if sharing == "shared" else 0)


def test_a_sub_agents_session_can_be_read_and_is_always_the_same(store: MemoryStore):
    """It fits every table; whoever wants another one says so."""
    chief = MemoryContext("alice", "chief", "s", store)
    assert chief.for_subagent("expert").session_id == "s/expert"
    assert chief.for_subagent("expert").for_subagent("helper").session_id == "s/expert/helper"
    assert chief.for_subagent("expert", session_id="own").session_id == "own"
    long = [MemoryContext("alice", "chief", "s" * 120 + end, store) for end in "ab"]
    sessions: Sequence[str] = [one.for_subagent(name).session_id for one in long for name in ("expert 1", "expert 2")]
    assert len(set(sessions)) == 4
    assert all(len(session) == 128 and session.startswith("s" * 115) for session in sessions)
    assert long[0].for_subagent("expert 1").session_id == sessions[0]
    for wrong in ("", "x" * 129, "a\nb"):
        with pytest.raises(ValueError, match="agent_id="):
            chief.for_subagent(wrong)
    with pytest.raises(ValueError, match="session_id=''"):
        chief.for_subagent("expert", session_id="")
    with pytest.raises(ValueError, match="sharing='none': use one of shared, read_only, isolated"):
        chief.for_subagent("expert", "none")  # type: ignore[arg-type]


async def test_a_sub_agent_has_what_its_parent_has(database_url: str, monkeypatch: pytest.MonkeyPatch):
    """Store, policy, light model, token counter; the default store stays open until the last of them has left."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)
    light = model("{}")
    parent = MemoryContext("alice", "chief", policy=ContextPolicy(token_budget=5000), model_client=light)
    monkeypatch.setenv("MEMORY_CONTEXT_URL", "postgresql://nowhere.invalid/x")
    sub = parent.for_subagent("expert")
    assert sub.memory_store is parent.memory_store
    assert (sub.user_id, sub.policy, sub.token_counter) == ("alice", parent.policy, parent.token_counter)
    assert sub.light_model_client is light
    assert sub.dump_component().config["memory_store"] == {}
    closed: list[str] = []
    close = parent.memory_store.close

    async def note_close(**limits: float) -> None:
        closed.append("closed")
        await close(**limits)

    monkeypatch.setattr(parent.memory_store, "close", note_close)
    key = await parent.store("text", "something")
    await parent.close()
    assert closed == []
    assert await sub.retrieve(key) == "text"
    await sub.close()
    assert closed == ["closed"]
