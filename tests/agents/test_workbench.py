"""The workbench: an agent's own tools, and those of its memory once something is stored; and what both take."""

import asyncio
import json
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_agentchat.tools import AgentTool
from autogen_core import ComponentLoader
from autogen_core.models import SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.recall.tools.base import MemoryTool
from memory_context.recall.tools.prompt_head import MemoryWorkbench, tool_tokens
from memory_context.sessions.transcript.view_decisions import Offered
from tests.support.contexts import check_apart

from ..context.steps import add_step
from .scripted import calls, model, report

MEMORY_TOOLS = [
    "store_memory",
    "retrieve_memory",
    "read_history",
    "search_memory",
    "query_memory",
    "manage_long_term_memory",
]
OFFERED = ["survey", *MEMORY_TOOLS]
OPENING = ["survey", "retrieve_memory"]
OF_A_FOLD = ["store_memory", "retrieve_memory", "read_history", "manage_long_term_memory"]


async def survey(topic: str) -> str:
    """Return what is known of a topic: too long to be shown whole."""
    return report(topic, 450)


async def _short_survey(topic: str) -> str:
    return report(topic, 100)


brief = FunctionTool(_short_survey, "Return a little of what is known of a topic.", name="survey")


async def count(number: int) -> str:
    """Return so many words."""
    return f"{number} words of a result that stays in the view " * 20


def agent_of(context: MemoryContext, client: ReplayChatCompletionClient, *others: Any) -> AssistantAgent:
    return AssistantAgent(
        context.agent_id,
        client,
        workbench=context.workbench([survey, *others]),
        model_context=context,
        system_message="Be kind.",
        max_tool_iterations=30,
    )


def offered_in(client: ReplayChatCompletionClient) -> list[list[str]]:
    """Return the names of the tools in each call of the model."""
    return [[tool["name"] for tool in call["tools"]] for call in client.create_calls]  # type: ignore[index]


def switches(context: MemoryContext) -> list[Offered]:
    log = [decision for _, decision in context.transcript.log if isinstance(decision, Offered)]
    return [now for before, now in zip([Offered(), *log], log, strict=False) if now.memory_tools != before.memory_tools]


async def test_first_reference_brings_the_tool_that_opens_it(store: MemoryStore):
    """Not before; then for good, and each call that the model makes of it is run."""
    context = MemoryContext("alice", "coder", "s", store)
    client = model(
        "Hello.",
        calls(("survey", {"topic": "owls"})),
        calls(("survey", {"topic": "bats"})),
        calls(("retrieve_memory", {"memory_key": "none"}), ("retrieve_memory", {"memory_key": "no"})),
        "Done.",
        "Bye.",
    )
    agent = agent_of(context, client)
    await agent.run(task="Hello?")
    run = await agent.run(task="Survey owls and bats.")
    assert offered_in(client) == [["survey"], ["survey"], OPENING, OPENING, OPENING]
    answers = [r for message in run.messages if isinstance(message, ToolCallExecutionEvent) for r in message.content]
    assert [answer.is_error for answer in answers] == [False] * 4
    assert "none" in answers[2].content
    (switch,) = switches(context)
    assert (switch.reason, switch.memory_tools) == ("offload", ("retrieve_memory",))
    assert context.stats.tools_offered == "offload"
    await context.clear()
    await agent.run(task="Bye.")
    assert offered_in(client)[-1] == OPENING, "what was offered is gone"
    assert len(switches(context)) == 1
    await context.close()


async def test_explain_names_the_switch_and_what_stands_before_the_view(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    client = model(calls(("survey", {"topic": "owls"})), "Done.")
    agent = agent_of(context, client)
    context.note_agent(system_message="Be kind.")
    await agent.run(task="Survey owls.")
    seen = await context.explain()
    assert ("offered", "offload", 1) in [(one.what, one.reason, one.count) for one in seen.decisions]
    known = seen.offered
    count = context.token_counter.count
    assert known.memory_tools_tokens + known.own_tools_tokens == pytest.approx(
        tool_tokens(client.create_calls[-1]["tools"], context.token_counter),
        abs=2,  # type: ignore[arg-type]
    )
    assert (known.instructions_tokens, known.system_tokens) == (0, count("Be kind."))
    assert f"before it: {known.tokens:,} tokens: memory tools (offload) " in str(seen)
    await context.close()


async def test_instructions_of_an_agent_without_memory_tools_are_counted_apart_from_its_own(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    instructions, count = context.instructions(), context.token_counter.count
    context.note_agent(system_message=f"Be kind. {instructions}")
    await AssistantAgent("coder", model("Done."), model_context=context).run(task="Survey owls.")
    known = (await context.explain()).offered
    assert known.instructions_tokens == count(instructions) > 0
    assert known.system_tokens == count("Be kind. ")
    await context.close()


@pytest.mark.parametrize(
    ("said", "is_asked"),
    [
        ("Remember that the boat is called Wanderer.", True),
        ("The boat is called Wanderer. Please take a note of it", True),
        ("Could you save the list in your memory?", True),
        ("Merk dir bitte: das Boot heisst Wanderer.", True),
        ("Schreib das bitte auf.", True),
        ("I do not remember what the boat is called.", False),
        ("Save the file and note that it is long.", False),
        ("Speichere die Datei.", False),
    ],
)
async def test_user_who_asks_to_keep_something_has_the_tools_for_it_in_the_first_session(
    store: MemoryStore, said: str, is_asked: bool
):
    """In the call that answers, and for good; the words of a tool or of another agent bring nothing."""
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="Remember that all is well.", source="critic"))
    client = model(calls(("count", {"number": 1})), "Done.", "Bye.")
    agent = agent_of(context, client, count)
    await agent.run(task=said)
    await agent.run(task="Bye.")
    keeping = ["store_memory", "manage_long_term_memory"] if is_asked else []
    assert offered_in(client) == [["survey", "count", *keeping]] * 3
    assert context.stats.tools_offered == ("asked" if is_asked else "")
    await context.close()


async def test_request_to_keep_something_brings_no_tools_where_much_would_be_read_anew(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    client = model("Hello.", "Noted.")
    agent = agent_of(context, client)
    await agent.run(task=f"Hello. {'Tell me of owls. ' * 600}")
    await agent.run(task="Remember that the boat is called Wanderer.")
    assert "store_memory" not in offered_in(client)[-1]
    await context.close()


async def test_fold_brings_the_tools_of_a_long_session(store: MemoryStore):
    """One opens what the fold leaves out, two keep what the agent will need; no item is stored here."""
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(token_budget=1000))
    client = model(*[calls(("count", {"number": number})) for number in range(8)], "Counted.")
    agent = agent_of(context, client, count)
    await agent.run(task="Count.")
    assert context.stats.folds > 0
    assert context.stats.offloads == 0
    assert offered_in(client)[0] == ["survey", "count"]
    assert offered_in(client)[-1] == ["survey", "count", *OF_A_FOLD]
    assert context.stats.tools_offered == "fold"
    await context.close()


async def test_fold_after_a_reference_adds_the_tools_of_a_long_session(store: MemoryStore):
    """Each arrival is recorded, and the bill counts the call that brings it without a cached prefix."""
    policy = ContextPolicy(token_budget=3000, view_target_tokens=None, first_view_limit_tokens=1000)
    context = MemoryContext("alice", "coder", "s", store, policy=policy)
    numbers = [calls(("count", {"number": number})) for number in range(25)]
    client = model(calls(("survey", {"topic": "owls"})), *numbers, "Counted.")
    await agent_of(context, client, count).run(task="Survey owls, then count.")
    offered = [len(names) for names in offered_in(client)]
    assert list(dict.fromkeys(offered)) == [2, 3, 6]
    assert offered == sorted(offered)
    assert [one.reason for one in switches(context)] == ["offload", "fold"]
    heads = [tool_tokens(call["tools"], context.token_counter) for call in client.create_calls]  # type: ignore[arg-type]
    assert context.stats.head_tokens_total == pytest.approx(sum(heads), abs=3 * len(heads))
    await context.close()


async def test_clear_takes_no_offered_tool_away(store: MemoryStore):
    """Not even where only a reference is shown afterwards."""
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(token_budget=1000))
    client = model(*[calls(("count", {"number": number})) for number in range(8)], "Counted.", "Yes.")
    agent = agent_of(context, client, count)
    await agent.run(task="Count.")
    await context.clear()
    await agent.run(task="Clear?")
    assert context.transcript.state.fold is None
    assert offered_in(client)[-1] == ["survey", "count", *OF_A_FOLD]
    assert [one.reason for one in switches(context)] == ["fold"]
    await context.close()


async def test_tool_that_the_application_names_comes_with_the_first_reference(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    bench = context.workbench(also=["forget_memory"])
    await add_step(context, report("owls", 450))
    await context.get_messages()
    assert [tool["name"] for tool in await bench.list_tools()] == ["retrieve_memory", "forget_memory"]
    await context.close()


async def test_item_that_the_application_stores_brings_the_tool_that_searches(store: MemoryStore):
    """The user has memory from then on."""
    context = MemoryContext("alice", "coder", "s", store)
    client = model(calls(("survey", {"topic": "owls"})), "Done.", "Yes.")
    agent = agent_of(context, client)
    await agent.run(task="Survey owls.")
    await context.store("The boat is called Wanderer.", "name of the boat")
    await agent.run(task="And the boat?")
    assert offered_in(client) == [["survey"], OPENING, [*OPENING, "search_memory"]]
    assert context.stats.tools_offered == "offload"
    await context.close()


@pytest.mark.parametrize("way", ["archive", "state", "state after a clear"])
async def test_tools_that_were_offered_stay_so_in_a_resumed_session(store: MemoryStore, way: str):
    """From the first call of the next process on, without a second switch."""
    context = MemoryContext("alice", "coder", "s", store)
    client = model(calls(("survey", {"topic": "owls"})), "Done.", "Yes.")
    agent = agent_of(context, client)
    await agent.run(task="Survey owls.")
    await agent.run(task="Done?")
    assert len(switches(context)) == 1
    if way == "state after a clear":
        await context.clear()
    state = json.loads(json.dumps(await context.save_state()))
    await context.close()
    again = MemoryContext("alice", "coder", "s", store, resume=way == "archive")
    second = model("Still here.")
    agent = agent_of(again, second)
    if way != "archive":
        await again.load_state(state)
    await agent.run(task="And now?")
    assert offered_in(second) == [OPENING]
    assert len(switches(again)) == 1
    await again.close()


async def test_large_first_message_of_a_new_user_brings_no_tools_while_it_is_whole(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    client = model("Read.")
    await agent_of(context, client).run(task=report("owls", 100))
    assert context.stats.offloads == 1
    assert offered_in(client) == [["survey"]]
    await context.close()


async def test_short_session_of_small_results_pays_for_no_memory_tools(store: MemoryStore):
    """Results stay whole until reducing them pays for the tools at once, or nearly."""
    context = MemoryContext("alice", "coder", "s", store)
    client = model(*[calls(("survey", {"topic": topic})) for topic in ("owls", "bats")], "Done.")
    agent = AssistantAgent(
        "coder",
        client,
        workbench=context.workbench([brief]),
        model_context=context,
        system_message=f"Be kind. {context.instructions()}",
        max_tool_iterations=9,
    )
    await agent.run(task="Survey owls and bats.")
    assert context.stats.offloads == 2
    assert offered_in(client) == [["survey"]] * 3
    seen = await context.explain()
    assert {segment.state for segment in seen.segments} == {"full"}
    assert {str(call["messages"][0].content) for call in client.create_calls} == {"Be kind. "}
    assert context.stats.relative_cost == 1
    await context.close()


async def test_user_who_has_memory_is_offered_the_search_from_the_first_call(store: MemoryStore):
    """An answer of it brings the tool that opens what was found. The agent's notes bring the tool for notes."""
    earlier = MemoryContext("alice", "coder", "earlier", store)
    await earlier.store("The boat is called Wanderer.", "name of the boat")
    await earlier.close()
    for user, tools, reason in (("alice", ["survey", "search_memory"], "memory"), ("bob", ["survey"], "")):
        context = MemoryContext(user, "coder", "s", store)
        client = model("Hello.")
        await agent_of(context, client).run(task="Hello?")
        assert offered_in(client) == [tools]
        assert context.stats.tools_offered == reason
        await context.close()
    context = MemoryContext("alice", "coder", "finds", store)
    await context.agent_memory.notes.append("Prefers short answers.")
    client = model(calls(("search_memory", {"query": "boat"})), "Wanderer.")
    await agent_of(context, client).run(task="Find out more.")
    found = (
        ["survey", "search_memory", "manage_long_term_memory"],
        [*OPENING, "search_memory", "manage_long_term_memory"],
    )
    assert offered_in(client) == [*found]
    await context.close()


async def test_fold_brings_all_memory_tools_if_the_user_has_memory(store: MemoryStore):
    earlier = MemoryContext("alice", "coder", "earlier", store)
    await earlier.store("The boat is called Wanderer.", "name of the boat")
    await earlier.close()
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(token_budget=1000))
    client = model(*[calls(("count", {"number": number})) for number in range(8)], "Counted.")
    await agent_of(context, client, count).run(task="Count.")
    assert offered_in(client)[-1] == ["survey", "count", *MEMORY_TOOLS]
    await context.close()


@pytest.mark.parametrize(("results", "first"), [(4, OPENING), (3, ["survey"])])
async def test_agent_whose_sessions_read_large_results_has_the_tool_that_opens_them_from_the_first_call(
    store: MemoryStore, results: int, first: list[str]
):
    """The median of its last sessions with this user decides. Another agent of the user learns nothing from it."""
    for number in range(3):
        earlier = MemoryContext("alice", "coder", f"earlier {number}", store)
        for step in range(10):
            await add_step(earlier, report(f"{number} {step}", 450 if step < results else 20))
        await earlier.close()
    for agent, tools in (("coder", first), ("writer", ["survey"])):
        context = MemoryContext("alice", agent, "s", store)
        client = model("Hello.")
        await agent_of(context, client).run(task="Hello?")
        offered = [name for name in offered_in(client)[0] if name != "search_memory"]
        assert offered == tools
        assert context.stats.tools_offered == ("past" if tools == OPENING else "memory")
        await context.close()


async def test_agent_answers_without_memory_tools_while_the_store_is_away(home: object):
    """Whether the user has memory is then not known; it is not asked again with each call."""
    store = MemoryStore("postgresql://nobody@127.0.0.1:1/none")
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(archive={"enabled": False}))  # type: ignore[arg-type]
    client = model("Hello.", "Hello again.")
    agent = agent_of(context, client)
    await agent.run(task="Hello?")
    asked: list[object] = []
    context.agent_memory.past_use = lambda: asked.append(1)  # type: ignore[method-assign,assignment,return-value]
    await agent.run(task="Hello?")
    assert offered_in(client) == [["survey"], ["survey"]]
    assert not asked
    await context.close()
    await store.close()


async def test_offered_tools_stay_callable_when_a_late_history_joins(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """The transcript that they were offered in is replaced between the model's call and the tool's."""
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.05)
    for session, keeps in (("s", False), ("other", True)):
        earlier = MemoryContext("alice", "coder", session, store)
        await earlier.add_message(UserMessage(content="One.", source="user"))
        if keeps:
            await earlier.store("The boat is called Wanderer.", "name of the boat")
        await earlier.close()
    context = MemoryContext("alice", "coder", "s", store)
    read, come = store.conversations.read, asyncio.Event()

    async def late(*args: Any) -> Any:
        await come.wait()
        return await read(*args)

    monkeypatch.setattr(store.conversations, "read", late)
    client = model(calls(("search_memory", {"query": "name of the boat"})), "Done.")
    create = client.create

    async def history_comes(*args: Any, **named: Any) -> Any:
        answer = await create(*args, **named)
        come.set()
        await context.resume()
        return answer

    monkeypatch.setattr(client, "create", history_comes)
    run = await agent_of(context, client).run(task="What is stored?")
    (answer,) = [r for message in run.messages if isinstance(message, ToolCallExecutionEvent) for r in message.content]
    assert "Wanderer" in answer.content or "name of the boat" in answer.content, answer.content
    assert "One." in str(await context.get_messages())
    searching = ["survey", "search_memory"]
    assert offered_in(client) == [searching, [*OPENING, "search_memory"]]
    assert len(switches(context)) == 2
    await context.close()


async def test_agent_with_a_workbench_loads_from_component_data(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Each load has a session of its own, and its memory tools wait for the first offload again."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", store.url_for_config.get("url") or "")
    original = MemoryContext("alice", "coder")
    expert = AssistantAgent("expert", model("Yes."), description="Knows.")
    agent = AssistantAgent("coder", model(), workbench=original.workbench([AgentTool(expert)]), model_context=original)
    data = json.loads(agent.dump_component().model_dump_json())
    loaded = [ComponentLoader.load_component(data, AssistantAgent) for _ in range(2)]
    assert json.loads(loaded[0].dump_component().model_dump_json()) == data
    pairs: list[tuple[MemoryContext, list[MemoryTool]]] = []
    for one, tools in zip(loaded, (["retrieve_memory"], ["retrieve_memory", "search_memory"]), strict=True):
        (bench,) = one._workbench  # pyright: ignore[reportPrivateUsage]
        assert isinstance(bench, MemoryWorkbench)
        assert isinstance(one.model_context, MemoryContext)
        if tools == ["retrieve_memory"]:
            assert [tool["name"] for tool in await bench.list_tools()] == ["expert"]
        await add_step(one.model_context, report("owls", 450))
        await one.model_context.get_messages()
        assert [tool["name"] for tool in await bench.list_tools()] == ["expert", *tools]
        pairs.append((one.model_context, [t for t in bench._tools if isinstance(t, MemoryTool)]))  # pyright: ignore[reportPrivateUsage]
        await one.model_context.clear()
    await check_apart(*pairs)
    await original.close()


async def test_messages_of_an_agent_that_is_a_tool_are_streamed_through_the_workbench(store: MemoryStore):
    """As AutoGen does for tools that are given to it directly."""
    context = MemoryContext("alice", "coder", "s", store)
    expert = AssistantAgent("expert", model("Owls sleep by day."), description="Knows owls.")
    client = model(calls(("expert", {"task": "When do owls sleep?"})), "By day.")
    agent = agent_of(context, client, AgentTool(expert))
    sources = [getattr(event, "source", "") async for event in agent.run_stream(task="Ask the expert.")]
    assert "expert" in sources
    await context.close()


def test_tools_of_one_name_are_refused():
    context = MemoryContext("alice", "coder")

    async def search_memory(query: str) -> str:
        """Search something else."""
        return query

    with pytest.raises(ValueError, match="search_memory; give each a name of its own"):
        context.workbench([search_memory])
    with pytest.raises(ValueError, match="survey"):
        context.workbench([survey, survey])


# --- the bill


@pytest.mark.parametrize("has_workbench", [True, False])
async def test_bill_counts_the_tools_and_the_system_message_of_each_call(store: MemoryStore, has_workbench: bool):
    """Recomputed from what the model client was given."""
    context = MemoryContext("alice", "coder", "s", store)
    client = model(*(calls(("survey", {"topic": topic})) for topic in ("owls", "bats", "moths")), "Done.")
    system = "Be kind. " * 300
    tools: dict[str, Any] = (
        {"workbench": context.workbench([survey])} if has_workbench else {"tools": [survey, *context.tools()]}
    )
    context.note_agent(system_message=system, tools=[survey])
    agent = AssistantAgent(
        "coder", client, **tools, model_context=context, system_message=system, max_tool_iterations=9
    )
    await agent.run(task="Survey them.")
    stats, counter = context.stats, context.token_counter
    own_tools = tool_tokens(await _schemas([survey]), counter)
    total = 0
    for number, call in enumerate(client.create_calls):
        assert call["messages"][0] == SystemMessage(content=system)
        offered: Any = call["tools"]
        head = tool_tokens(offered, counter) + counter.count(system)
        total += head
        assert (len(offered) > 1) == (not has_workbench or number > 0)
    assert stats.head_tokens_total == pytest.approx(total, abs=5 * len(client.create_calls))
    assert stats.raw_head_tokens_total == (own_tools + counter.count("Be kind. " * 300)) * 4
    of_memory = stats.head_tokens_total - stats.raw_head_tokens_total
    assert stats.saved_tokens == stats.raw_tokens_total - stats.view_tokens_total - of_memory
    # by hand: all calls but the first find the call before in the cache, up to the results that were compacted since;
    # the call that brings the tools, which stand first, finds nothing there
    new = 1.25 * (stats.head_tokens_total + stats.view_tokens_total)
    heads = [stats.head_tokens] * 4
    if has_workbench:
        heads = [stats.raw_head_tokens, stats.head_tokens, stats.head_tokens, stats.head_tokens]
    stable = _stable_tokens(client, counter)
    kept = [0, 0 if has_workbench else heads[1] + stable[1], heads[2] + stable[2], heads[3] + stable[3]]
    assert stats.cost == pytest.approx(new - 1.15 * sum(kept), abs=20)
    assert stats.relative_cost != stats.relative_view_cost
    await context.close()


async def _schemas(tools: list[Any]) -> list[Any]:
    return [tool for tool in await MemoryContext("x").workbench(tools).list_tools() if tool["name"] == "survey"]


def _stable_tokens(client: ReplayChatCompletionClient, counter: Any) -> list[int]:
    """Return the tokens of the messages at the head of each call that were the same in the call before."""
    from benchmarks.prompts import render

    before: list[Any] = []
    stable: list[int] = []
    for call in client.create_calls:
        now = list(call["messages"])[1:]
        same = 0
        for old, new in zip(before, now, strict=False):
            if old != new:
                break
            same += render(new, counter.count).tokens
        stable.append(same)
        before = now
    return stable


async def test_bill_of_a_plain_context_is_that_of_its_messages(store: MemoryStore):
    """Nothing was named, so both figures are one, and no decision is recorded."""
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="Hello.", source="user"))
    for topic in ("owls", "bats"):
        await add_step(context, report(topic))
        await context.get_messages()
    stats = context.stats
    assert (stats.cost, stats.raw_cost) == (stats.view_cost, stats.raw_view_cost)
    assert stats.head_tokens_total == 0
    assert not [one for _, one in context.transcript.log if isinstance(one, Offered)]
    assert "before it" not in str(await context.explain())
    await context.close()
