"""Component data describes an agent, never a conversation: each load gives an agent with a session of its own."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, ComponentLoader
from autogen_core.models import UserMessage
from autogen_core.tools import StaticWorkbench

from memory_context import MemoryContext, MemoryStore
from memory_context.recall.tools.base import MemoryTool
from tests.support.contexts import check_apart

from .scripted import calls, model

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def default_store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)


def agent_of(
    context: MemoryContext, name: str = "coder", *others: Any, answers: tuple[str, ...] = ()
) -> AssistantAgent:
    return AssistantAgent(name, model(), tools=[*context.tools(), *others], model_context=context)


def dumped(component: Any) -> Json:
    return json.loads(component.dump_component().model_dump_json())


@pytest.fixture
def blueprint() -> Json:
    """An agent with tools and an unnamed session; the agent itself is gone."""
    return dumped(agent_of(MemoryContext("alice", "coder")))


def loaded(data: Json) -> AssistantAgent:
    return ComponentLoader.load_component(json.loads(json.dumps(data)), AssistantAgent)


def context_in(agent: AssistantAgent) -> MemoryContext:
    assert isinstance(agent.model_context, MemoryContext)
    return agent.model_context


def tools_in(agent: AssistantAgent) -> list[MemoryTool]:
    (bench,) = agent._workbench  # pyright: ignore[reportPrivateUsage]
    assert isinstance(bench, StaticWorkbench)
    return [tool for tool in bench._tools if isinstance(tool, MemoryTool)]  # pyright: ignore[reportPrivateUsage]


def pair_in(agent: AssistantAgent) -> tuple[MemoryContext, list[MemoryTool]]:
    return context_in(agent), tools_in(agent)


# --- what is dumped


def test_a_generated_session_id_is_not_dumped(blueprint: Json):
    """Nor is it hidden in the template's id or in a tool."""
    context = MemoryContext("alice", "coder")
    text = json.dumps(dumped(agent_of(context)))
    assert context.session_id not in text
    sub = context.for_subagent("expert")
    assert context.session_id not in json.dumps(dumped(sub))
    assert '"session_id"' not in text.replace('"session_id": null', "")


async def test_a_session_id_that_the_application_named_is_dumped(blueprint: Json):
    """Loading it goes on with that session, as naming it in Python does; also after another state was loaded."""
    context = MemoryContext("alice", "coder", "named")
    await context.add_message(UserMessage(content="Hello.", source="user"))
    await context.archive()
    other = MemoryContext("alice", "coder", "another")
    data = dumped(agent_of(context))
    await context.load_state(await other.save_state())
    assert context.session_id == "another"
    assert dumped(agent_of(context))["config"]["model_context"]["config"]["session_id"] == "named"
    again = loaded(data)
    assert context_in(again).session_id == "named"
    assert "Hello." in str(await context_in(again).get_messages())
    for one in (context, other, context_in(again)):
        await one.close()


def test_a_dump_of_a_loaded_agent_is_the_same(blueprint: Json):
    assert dumped(loaded(blueprint)) == blueprint


# --- loaded twice


async def test_agents_loaded_one_after_another_do_not_share(blueprint: Json):
    await check_apart(*[pair_in(loaded(blueprint)) for _ in range(3)])


async def test_agents_loaded_beside_the_dumped_one_do_not_share():
    original = MemoryContext("alice", "coder")
    agent = agent_of(original)
    first, second = loaded(dumped(agent)), loaded(dumped(agent))
    await check_apart(pair_in(first), pair_in(second), (original, tools_in(agent)))


async def test_agents_of_one_template_that_run_at_once_read_their_own_sessions(blueprint: Json):
    """Their calls have the same ids; a third agent, loaded in a thread, is used from another task each time."""
    agents = [loaded(blueprint), loaded(blueprint), await asyncio.to_thread(loaded, blueprint)]
    for agent in agents:
        answers = [one for limit in (10, 20) for one in (calls(("read_history", {"limit": limit})), "Read.")]
        agent._model_client = model(*answers)  # pyright: ignore[reportPrivateUsage]
        agent._max_tool_iterations = 2  # pyright: ignore[reportPrivateUsage]
    secrets = [f"secret-{number}-{uuid.uuid4().hex}" for number in range(len(agents))]
    for _ in range(2):
        runs = [agent.run(task=secret) for agent, secret in zip(agents, secrets, strict=True)]
        for result, own in zip(await asyncio.gather(*runs), secrets, strict=True):
            (read,) = [str(one.content) for one in result.messages if isinstance(one, ToolCallExecutionEvent)]
            assert [secret for secret in secrets if secret in read] == [own]
    for agent in agents:
        await context_in(agent).close()


async def test_tools_listed_after_the_context_belong_to_it(blueprint: Json):
    """As in data written by hand; for each of two loads, and the context knows that its agent has tools."""
    data = json.loads(json.dumps(blueprint))
    data["config"]["tools"] = data["config"].pop("workbench")[0]["config"]["tools"]
    agents = [loaded(data), loaded(data)]
    assert all(context_in(agent)._session.expander.agent_has_tools for agent in agents)  # pyright: ignore[reportPrivateUsage]
    await check_apart(*map(pair_in, agents))


async def test_members_of_a_team_made_from_one_template_do_not_share(blueprint: Json):
    """In a team's data that was put together by hand, and in one that a team of loaded agents dumped."""
    members = [json.loads(json.dumps(blueprint)) for _ in range(2)]
    members[1]["config"]["name"] = "second"
    team = RoundRobinGroupChat([loaded(member) for member in members])
    by_hand = dumped(team)
    by_hand["config"]["participants"] = members
    for data in (by_hand, dumped(team)):
        for _ in range(2):
            again = ComponentLoader.load_component(data, RoundRobinGroupChat)
            agents = again._participants  # pyright: ignore[reportPrivateUsage]
            await check_apart(*[pair_in(agent) for agent in agents if isinstance(agent, AssistantAgent)])


@pytest.mark.parametrize("inner", ["of one template", "a sub-agent"])
async def test_an_agent_that_is_a_tool_of_another_does_not_share(blueprint: Json, inner: str):
    """Its parts are loaded among those of the other."""
    if inner == "a sub-agent":
        chief = MemoryContext("alice", "chief")
        expert = agent_of(chief.for_subagent("expert"), "expert")
        data = dumped(agent_of(chief, "chief", AgentTool(expert)))
    else:
        expert, outer = loaded(blueprint), loaded(blueprint)
        data = dumped(outer)
        data["config"]["workbench"][0]["config"]["tools"].append(dumped(AgentTool(expert)))
        data["config"]["workbench"][0]["config"]["tools"][-1]["config"]["agent"]["config"]["name"] = "expert"
    pairs: list[tuple[MemoryContext, list[MemoryTool]]] = []
    for _ in range(2):
        agent = loaded(data)
        pairs.append(pair_in(agent))
        (bench,) = agent._workbench  # pyright: ignore[reportPrivateUsage]
        (tool,) = [t for t in bench._tools if isinstance(t, AgentTool)]  # type: ignore[attr-defined]
        assert isinstance(tool._agent, AssistantAgent)  # pyright: ignore[reportPrivateUsage]
        pairs.append(pair_in(tool._agent))  # pyright: ignore[reportPrivateUsage]
    await check_apart(*pairs)


async def test_a_tool_that_was_loaded_alone_says_that_it_cannot_tell_its_context(blueprint: Json):
    """With one context of its template it belongs to that; with two it reads from neither, until one is in use."""
    tools = blueprint["config"]["workbench"][0]["config"]["tools"]
    history = MemoryTool.load_component(next(one for one in tools if "History" in one["provider"]), MemoryTool)
    first = loaded(blueprint)
    await context_in(first).add_message(UserMessage(content="secret", source="user"))
    assert "secret" in await history.run_json({}, CancellationToken())
    second = loaded(blueprint)
    answer = await history.run_json({}, CancellationToken())
    assert answer.startswith("This tool cannot tell where to look: 2 contexts")
    await context_in(second).get_messages()
    assert "secret" not in await history.run_json({}, CancellationToken())
    for agent in (first, second):
        await context_in(agent).close()


# --- written by 0.1.0


def as_earlier(data: Any, session_id: str) -> Any:
    """Return component data as 0.1.0 wrote it: everything names the session."""
    if isinstance(data, list):
        return [as_earlier(one, session_id) for one in data]
    if not isinstance(data, dict):
        return data
    earlier = {key: as_earlier(value, session_id) for key, value in data.items()}
    if "template_id" in earlier:
        del earlier["template_id"]
        earlier["session_id"] = session_id
    return earlier


@pytest.mark.parametrize("suffix", ["", "/expert"])
async def test_data_of_the_version_before_does_not_pin_a_generated_session(blueprint: Json, suffix: str):
    data = as_earlier(blueprint, uuid.uuid4().hex + suffix)
    await check_apart(*[pair_in(loaded(data)) for _ in range(2)])


async def test_data_of_the_version_before_keeps_a_session_that_was_named(blueprint: Json, store: MemoryStore):
    agent = loaded(as_earlier(blueprint, "named"))
    assert context_in(agent).session_id == "named"
    await context_in(agent).add_message(UserMessage(content="Hello.", source="user"))
    assert all(["Hello." in await t.run_json({}, CancellationToken()) for t in tools_in(agent) if "history" in t.name])
    await context_in(agent).close()
