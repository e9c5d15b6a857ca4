"""UIAgentBuilder: what an application hands in, and what it gets."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_core import FunctionCall
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import (
    ContextPolicy,
    ItemNotFoundError,
    MemoryContext,
    MemoryContextBuilder,
    MemoryStore,
    choose_light_model,
)
from samples.chainlit_web import ui_hook
from samples.chainlit_web.ui_hook import ComponentError, UIAgentBuilder, check_component, read_component
from samples.code_agent import CodeAgent


@dataclass
class DataLayer:
    """An application's own, with a store in it."""

    memory_store: MemoryStore


@pytest.mark.parametrize("wrap", [lambda store: store, DataLayer], ids=["a store", "a data layer with a store"])
async def test_contexts_keep_their_data_in_the_applications_store(wrap, store: MemoryStore) -> None:
    context = UIAgentBuilder("helper").build_model_context("alice", wrap(store), session_id="thread-1")
    assert isinstance(context, MemoryContext)
    assert (context.user_id, context.agent_id, context.session_id) == ("alice", "helper", "thread-1")
    key = await context.store("the content", "a note")
    assert await store.items.fetch_memory("alice", key) is not None
    await context.close()
    assert await store.items.fetch_memory("alice", key) is not None  # the store is the application's: still open


def test_without_a_data_layer_the_default_store_is_used(new_home: Path) -> None:
    """And nothing is started yet."""
    context = UIAgentBuilder().build_model_context("alice", None)
    assert context.memory_store is MemoryStore.default()
    assert list(new_home.iterdir()) == []


@pytest.mark.parametrize("wrong", ["postgresql://me:hidden@localhost/db", object(), DataLayer(memory_store="no")])  # type: ignore[arg-type]
def test_another_data_layer_is_refused_with_what_to_pass(wrong: object) -> None:
    with pytest.raises(TypeError, match="pass a MemoryStore, an object with one as its memory_store, or None"):
        UIAgentBuilder().build_model_context("alice", wrong)


async def test_one_user_never_reads_anothers_content(store: MemoryStore) -> None:
    builder = UIAgentBuilder()
    alice, bob = (builder.build_model_context(user, store) for user in ("alice", "bob"))
    key = await alice.store("private", "a note")
    with pytest.raises(ItemNotFoundError):
        await bob.retrieve(key)


async def test_the_policy_holds_for_every_context(store: MemoryStore) -> None:
    builder = UIAgentBuilder(policy=ContextPolicy(token_budget=2000))
    context = builder.build_model_context("alice", store)
    await context.add_message(UserMessage(content="a word " * 5000, source="user"))
    await context.get_messages()
    assert context.stats.view_tokens <= 2000


class HostBuilder:
    """An application's own builder, which knows nothing of memory."""

    def build_model_context(self, user_id: str, data_layer: object = None, **others: Any) -> object:
        return BufferedChatCompletionContext(5)

    def build(self, user_id: str, data_layer: object, client: ReplayChatCompletionClient) -> AssistantAgent:
        context = self.build_model_context(user_id, data_layer, model_client=client)
        return AssistantAgent("helper", client, model_context=context)  # type: ignore[arg-type]


async def test_the_mixin_gives_a_hosts_own_builder_contexts_that_remember(store: MemoryStore) -> None:
    """The host's `build_model_context` is overridden; everything else of it stays."""

    class Builder(MemoryContextBuilder, HostBuilder):
        agent_id = "helper"

    client = replay("Fine.")
    context = Builder().build("alice", DataLayer(store), client).model_context
    assert isinstance(context, MemoryContext)
    assert (context.user_id, context.agent_id, context.memory_store) == ("alice", "helper", store)
    assert context.light_model_client is client


@pytest.mark.parametrize(
    ("setting", "variable", "expected", "said"),
    [
        (None, "", "own", "Light model: the agent's own model (MEMORY_CONTEXT_LIGHT_MODEL=off lets the rules decide)."),
        (None, "off", None, "Light model: off, the rules decide."),
        ("off", "own", None, "Light model: off, the rules decide."),
        ("own", "off", "own", "Light model: the agent's own model"),
        (None, "tiny", "tiny", "Light model: tiny."),
    ],
)
def test_the_light_model_is_the_applications_own_unless_a_setting_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, variable: str, expected: str | None, said: str
) -> None:
    """One setting turns it off; the start-up line says which it is; a context alone takes none."""
    monkeypatch.setenv("MEMORY_CONTEXT_LIGHT_MODEL", variable)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    own = replay("Fine.")
    client = UIAgentBuilder(light_model=setting).build_model_context("alice", model_client=own).light_model_client
    if expected == "tiny":
        assert client is not None
        assert client.dump_component().config["model"] == "tiny"
    else:
        assert client is (own if expected == "own" else None)
    assert str(choose_light_model(own, setting)).startswith(said)
    assert MemoryContext("alice").light_model_client is None
    assert choose_light_model(None, "own").client is None
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ValueError, match="'tiny' needs OPENAI_API_KEY"):
        choose_light_model(own, "tiny")


async def test_the_light_model_of_an_agent_that_makes_its_context_is_its_own(home: Path) -> None:
    """CodeAgent's default context; "off" lets the rules decide."""
    for setting, is_wired in ((None, True), ("off", False)):
        client = replay("Fine.")
        agent = CodeAgent("coder", client, light_model=setting)
        assert isinstance(agent.model_context, MemoryContext)
        assert (agent.model_context.light_model_client is client) == is_wired
        await agent.close()


def test_the_builder_needs_no_user_interface() -> None:
    """It is plain Python: nothing in it imports Chainlit."""
    for path in Path(ui_hook.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "chainlit" for name in names), path


# --- component JSON --------------------------------------------------------------------------------------------------

ASSISTANT = "autogen_agentchat.agents.AssistantAgent"
TEAM = "autogen_agentchat.teams.RoundRobinGroupChat"


def replay(*answers: Any, calls_tools: bool = True) -> ReplayChatCompletionClient:
    info = ModelInfo(
        vision=False,
        function_calling=calls_tools,
        json_output=False,
        family=ModelFamily.UNKNOWN,
        structured_output=False,
    )
    return ReplayChatCompletionClient(list(answers) or ["Done."], info)


def dumped(runner: Any) -> dict[str, Any]:
    """Return what an operator pastes: what AutoGen dumps."""
    return read_component(runner.dump_component().model_dump_json())


def clock() -> FunctionTool:
    async def now() -> str:
        return "noon"

    return FunctionTool(now, "Tells the time.", name="clock")


def simple(name: str = "helper", **config: Any) -> dict[str, Any]:
    return {"provider": ASSISTANT, "config": {"name": name, **config}}


async def test_a_pasted_agent_holds_a_context_of_the_user_and_the_tools_of_its_memory(store: MemoryStore) -> None:
    call = FunctionCall(id="1", name="store_memory", arguments=json.dumps({"content": "x", "description": "a note"}))
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    asked = CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)
    agent = AssistantAgent(
        "helper",
        replay(asked, "Kept."),
        model_context=BufferedChatCompletionContext(3),
        system_message="Be kind.",
        max_tool_iterations=3,
    )
    built = UIAgentBuilder().build_component("alice", DataLayer(store), dumped(agent), session_id="thread-1")
    (context,) = built.contexts.values()
    assert (context.user_id, context.agent_id, context.session_id) == ("alice", "helper", "thread-1")
    assert isinstance(built.runner, AssistantAgent)
    assert built.runner.model_context is context
    await built.runner.run(task="Keep x.")
    assert "Stored. [MemoryRef: store_memory_" in str(await context.get_messages())
    assert (await context.search("a note"))[0].item.ref.description == "a note"
    assert built.runner.dump_component().config["system_message"] == "Be kind."
    await context.close()


async def test_every_agent_of_a_team_gets_a_context_of_its_own(store: MemoryStore) -> None:
    """At whatever depth; the selector's context, which no agent holds, stays as it was configured."""
    inner = RoundRobinGroupChat(
        [AssistantAgent("inner", replay("inner words"))], termination_condition=MaxMessageTermination(2)
    )
    team = SelectorGroupChat(
        [AssistantAgent("writer", replay("a poem")), SocietyOfMindAgent("society", inner, replay("together"))],
        replay("writer"),
        termination_condition=MaxMessageTermination(3),
    )
    built = UIAgentBuilder().build_component("alice", store, dumped(team), session_id="thread-1")
    assert [*built.contexts] == ["writer", "society", "inner"]
    assert {context.session_id for context in built.contexts.values()} == {"thread-1"}
    assert len({id(context) for context in built.contexts.values()}) == 3


async def test_a_team_runs_with_the_model_of_the_application(store: MemoryStore) -> None:
    team = {"provider": TEAM, "config": {"participants": [simple("writer"), simple("critic")], "max_turns": 2}}
    builder = UIAgentBuilder(light_model="off")  # else it would have the first of the answers
    built = builder.build_component("alice", store, team, model_client=replay("a poem", "too short"))
    result = await built.runner.run(task="Write.")
    assert [(one.source, one.to_text()) for one in result.messages if hasattr(one, "to_text")][-2:] == [
        ("writer", "a poem"),
        ("critic", "too short"),
    ]
    assert "a poem" in str(await built.contexts["critic"].get_messages())
    for context in built.contexts.values():
        await context.close()


async def test_goes_on_with_contexts_that_are_given(store: MemoryStore) -> None:
    builder = UIAgentBuilder()
    first = builder.build_component("alice", store, simple(), model_client=replay())
    again = builder.build_component("alice", store, simple(), model_client=replay(), contexts=first.contexts)
    assert again.contexts["helper"] is first.contexts["helper"]


async def test_a_workbench_stays_beside_the_tools_of_the_memory(store: MemoryStore) -> None:
    component = dumped(AssistantAgent("helper", replay(), tools=[clock()]))  # a dump has its tools in a workbench
    built = UIAgentBuilder().build_component("alice", store, component)
    assert isinstance(built.runner, AssistantAgent)
    tools = [tool["name"] for bench in built.runner._workbench for tool in await bench.list_tools()]
    assert tools == ["clock", *(tool.name for tool in built.contexts["helper"].tools())]


def test_what_may_run_on_the_server_is_told_before_it_is_loaded() -> None:
    """Nothing is loaded to tell it: the tool would raise."""
    tool = clock().dump_component().model_dump()
    tool["config"]["source_code"] = "raise SystemExit"
    mcp = {
        "provider": "autogen_ext.tools.mcp.McpWorkbench",
        "config": {"server_params": {"type": "StdioServerParams", "command": "uvx", "args": ["some-server"]}},
    }
    team = {"provider": TEAM, "config": {"participants": [simple("a", tools=[tool]), simple("b", workbench=[mcp])]}}
    executor = {"provider": "autogen_ext.code_executors.local.LocalCommandLineCodeExecutor", "config": {}}
    runner = {
        "provider": "autogen_agentchat.agents.CodeExecutorAgent",
        "config": {"name": "c", "description": "Runs code.", "code_executor": executor},
    }
    team["config"]["participants"].append(runner)
    reach = check_component(team).reach
    assert len(reach) == 3
    assert reach[0] == "config.participants[0].config.tools[0]: the tool 'clock' is Python in this JSON"
    assert reach[1].startswith("config.participants[1].config.workbench[0]: autogen_ext.tools.mcp.")
    assert reach[1].endswith("McpWorkbench, which starts 'uvx'")
    assert reach[2].startswith("config.participants[2].config.code_executor: autogen_ext.code_executors.local")
    assert check_component(simple()).reach == ()


@pytest.mark.parametrize(
    ("component", "told"),
    [
        ({"provider": "os.system", "config": {}}, "provider: 'os.system' is outside of the known namespaces"),
        ({"provider": "autogen_agentchat_evil.Agent"}, "is outside of the known namespaces"),
        ({"provider": "AssistantAgent"}, "provider: 'AssistantAgent' is outside of the known namespaces"),
        ({"provider": "autogen_agentchat.nowhere.Agent"}, "cannot be imported: No module named"),
        ({"provider": "autogen_core.CancellationToken"}, "is no component"),
        ({"provider": "autogen_core.tools.FunctionTool", "config": {}}, "is neither an agent nor a team"),
        ({"provider": ASSISTANT, "config": []}, "config: this has to be an object"),
        (
            {
                "provider": TEAM,
                "config": {"participants": [simple("a", model_client={"provider": "x.Y", "config": {}})]},
            },
            "config.participants[0].config.model_client.provider: 'x.Y' is outside",
        ),
        (
            simple(
                model_client={"provider": "OpenAIChatCompletionClient", "config": {"model": "m", "api_key": "sk-1"}}
            ),
            "config.model_client.config.api_key: a secret in the JSON would be kept with the chat",
        ),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(component: dict[str, Any], told: str) -> None:
    with pytest.raises(ComponentError) as error:
        check_component(component)
    assert told in str(error.value)
    assert "sk-1" not in str(error.value)


def test_two_agents_of_one_name_are_refused() -> None:
    """A name is whose memory it is."""
    team = {"provider": TEAM, "config": {"participants": [simple("a"), simple("a")]}}
    with pytest.raises(ComponentError, match=r"participants\[1\]: there is an agent 'a' already"):
        check_component(team)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"provider": "x",}', "This is no JSON: .* \\(line 1, column 18\\)"),
        ("[1]", 'A component is a JSON object with "provider" and "config"'),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_component_is_told_so(text: str, told: str) -> None:
    with pytest.raises(ComponentError, match=told):
        read_component(text)


def test_a_namespace_of_ones_own_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    code_agent = {"provider": "samples.code_agent.CodeAgent", "config": {"name": "coder", "code_root": "."}}
    with pytest.raises(ComponentError, match="outside of the known namespaces"):
        check_component(code_agent)
    monkeypatch.setenv("AUTOGEN_ALLOWED_PROVIDER_NAMESPACES", "other, samples")
    checked = check_component(code_agent)
    assert checked.reach == ("the component itself: samples.code_agent.CodeAgent",)


def test_what_an_agent_refuses_is_told_in_its_words(store: MemoryStore) -> None:
    with pytest.raises(ComponentError, match=r"It cannot be built: .*identifier"):
        UIAgentBuilder().build_component("alice", store, simple("not a name"), model_client=replay())
