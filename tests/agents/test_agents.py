"""Real AutoGen agents hold a MemoryContext; only the models' words are scripted."""

import asyncio
import json

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import CancellationToken, ComponentLoader
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor

from memory_context import ContextPolicy, MemoryContext, MemoryRef, MemoryStore
from memory_context.foundation.messages import message_to_json

from ..conftest import StartPython
from ..context.histories import check_pairing
from .scripted import calls, model, report, seen, text_of


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


def fail(topic: str) -> str:
    """Fail at length."""
    raise ValueError(report(topic))


@pytest.fixture
def context(store: MemoryStore) -> MemoryContext:
    return MemoryContext("alice", "coder", memory_store=store)


async def test_a_result_is_seen_whole_once_and_then_as_its_placeholder(context: MemoryContext):
    """The whole point, with one agent over several tool iterations."""
    client = model(calls(("survey", {"topic": "owls"})), calls(("survey", {"topic": "bats"})), "Done.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, max_tool_iterations=5)
    await agent.run(task="Survey owls and bats.")
    assert report("owls") in text_of(seen(client, 1)), "first view in full"
    last = text_of(seen(client, 2))
    assert report("owls") not in last
    assert "survey succeeded. [MemoryRef: survey_" in last
    assert report("bats") in seen(client, 2)[-1].content[0].content
    key = next(s.keys[0] for s in (await context.explain()).segments if s.keys)
    assert await context.retrieve(key) == report("owls")


async def test_parallel_calls_are_one_transaction_and_stay_in_order(context: MemoryContext):
    """All results of one step come in one message, and are paired with their calls after compaction."""
    topics = ["owls", "bats", "frogs", "eels"]
    client = model(calls(*[("survey", {"topic": t}) for t in topics], ("fail", {"topic": "x"})), "Read.", "Done.")
    agent = AssistantAgent("coder", client, tools=[survey, fail], model_context=context, reflect_on_tool_use=True)
    await agent.run(task="All of them.")
    assert context.stats.write_transactions == 1
    await agent.run(task="And now?")
    view = seen(client)
    check_pairing(view[1:])
    results = next(m for m in view if isinstance(m, FunctionExecutionResultMessage)).content
    assert [f"topic={t}," in r.content for t, r in zip(topics, results, strict=False)] == [True] * 4
    assert "fail failed." in results[4].content, "models are told of the failure although clients drop is_error"


async def test_with_default_settings_a_result_is_first_seen_in_the_next_turn(context: MemoryContext):
    """AssistantAgent stores the result after its only model call: it is shown whole when the model first sees it."""
    client = model(calls(("survey", {"topic": "owls"})), "Seen.", "Bye.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context)
    await agent.run(task="Survey owls.")
    await agent.run(task="What did you find?")
    assert report("owls") in text_of(seen(client))
    await agent.run(task="Bye.")
    assert report("owls") not in text_of(seen(client))


async def test_streaming_agents_work_alike(context: MemoryContext):
    """create_stream goes through the same context."""
    client = model(calls(("survey", {"topic": "owls"})), "It is long.", "Done.")
    agent = AssistantAgent(
        "coder", client, tools=[survey], model_context=context, model_client_stream=True, reflect_on_tool_use=True
    )
    events = [event async for event in agent.run_stream(task="Survey owls.")]
    assert events[-1].messages[-1].content == "It is long."
    assert "survey succeeded. [MemoryRef: " in text_of(await context.get_messages())


async def test_the_agents_own_tools_open_a_placeholder_and_the_look_up_is_not_stored_again(context: MemoryContext):
    """retrieve_memory by regex; what it answered collapses to what it was a look at."""

    def key() -> str:
        return next(s.keys[0] for s in context._session.meter.views[1].messages[2].segments if s.keys)

    client = model(calls(("survey", {"topic": "owls"})), "placeholder for the call", "It is 444.", "Yes.")
    agent = AssistantAgent(
        "coder", client, tools=[survey, *context.tools()], model_context=context, max_tool_iterations=5
    )
    await agent.run(task="Survey owls.")
    await context.get_messages()
    client.chat_completions[2:2] = [
        calls(
            (
                "retrieve_memory",
                {
                    "memory_key": key(),
                    "transform": "filtered",
                    "pattern": "finding (1[0-9]{2}):",
                    "context_lines": 0,
                    "max_matches": 100,
                },
            )
        )
    ]
    await agent.run(task="What was finding 12?")
    answer = next(m for m in reversed(seen(client)) if isinstance(m, FunctionExecutionResultMessage)).content[0]
    assert "101: owls finding 100: value 673" in answer.content
    assert context.stats.offloads == 1, "a look-up is no new item"
    await agent.run(task="Sure?")
    collapsed = [m for m in seen(client) if isinstance(m, FunctionExecutionResultMessage)][-1].content[0].content
    assert collapsed == f"matches of 'finding (1[0-9]{{2}}):' in {context_ref(context)}"


def context_ref(context: MemoryContext) -> str:
    part = next(p for e in context.transcript.entries() for p in e.measured if p.stored and p.stored.refs)
    assert part.stored is not None
    return part.stored.refs[0].render()


async def test_hand_off_messages_reach_the_other_agent_whole_and_are_not_consumed_by_it(store: MemoryStore):
    """A hand-off brings assistant messages of another agent; what this agent has not been shown stays fresh."""
    first_context = MemoryContext("alice", "first", memory_store=store)
    second_context = MemoryContext("alice", "second", memory_store=store)
    first_client = model(calls(("survey", {"topic": "owls"}), ("transfer_to_second", {})))
    second_client = model("Thanks.")
    first = AssistantAgent("first", first_client, tools=[survey], handoffs=["second"], model_context=first_context)
    second = AssistantAgent("second", second_client, model_context=second_context)
    team = Swarm([first, second], max_turns=2)
    await team.run(task="Survey owls, then hand over.")
    view = seen(second_client)
    check_pairing(view[1:])
    assert report("owls") in text_of(view), "shown whole to the agent that has not seen it"
    assert isinstance(view[1], UserMessage)
    assert view[1].content == "Survey owls, then hand over."


async def test_attached_list_memory_is_rendered_once(context: MemoryContext):
    """AutoGen adds the same system message at each run; a view has it once."""
    memory = ListMemory()
    await memory.add(MemoryContent(content="The user likes owls.", mime_type=MemoryMimeType.TEXT))
    client = model("One.", "Two.", "Three.")
    agent = AssistantAgent("coder", client, memory=[memory], model_context=context)
    for task in ("a", "b", "c"):
        await agent.run(task=task)
    told = [m for m in seen(client)[1:] if isinstance(m, SystemMessage)]
    assert len(told) == 1


async def test_an_agent_goes_on_after_a_cancelled_tool(context: MemoryContext):
    """A run that is cancelled in mid-call leaves a call without result; the next view repairs it."""
    started = asyncio.Event()

    async def forever() -> str:
        """Never return."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    client = model(calls(("forever", {})), "Back again.")
    agent = AssistantAgent("coder", client, tools=[forever], model_context=context)
    token = CancellationToken()
    run = asyncio.create_task(agent.run(task="Wait.", cancellation_token=token))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = await agent.run(task="Are you there?")
    assert result.messages[-1].content == "Back again."
    check_pairing(seen(client)[1:])
    assert "interrupted" in text_of(seen(client))


async def test_a_failed_run_that_is_tried_again_does_not_double_its_messages(store: MemoryStore):
    """The team delivers again what was not answered; the context has it once."""
    context = MemoryContext("alice", "coder", memory_store=store)
    client = model()
    agent = AssistantAgent("coder", client, model_context=context)
    with pytest.raises(ValueError, match="No more mock responses"):
        await agent.on_messages([TextMessage(content="Hello?", source="user")], CancellationToken())
    client.chat_completions.append("Hello.")
    await agent.on_messages([TextMessage(content="Hello?", source="user")], CancellationToken())
    assert [m.content for m in seen(client)[1:]] == ["Hello?"]


async def test_a_user_may_say_the_same_twice(context: MemoryContext):
    """Only unanswered messages can be delivered again."""
    client = model("Really?", "All right.")
    agent = AssistantAgent("coder", client, model_context=context)
    await agent.run(task="yes")
    await agent.run(task="yes")
    assert [m.content for m in seen(client)[1:]] == ["yes", "Really?", "yes"]


@pytest.mark.filterwarnings("ignore:No approval function set", "ignore:Using LocalCommandLineCodeExecutor")
async def test_code_output_is_a_result(context: MemoryContext, tmp_path):
    """CodeExecutorAgent reports under its own name; that is compacted like a tool's result, user text is not."""
    code = "```python\nfor i in range(900): print('line', i, i * i)\n```"
    client = model(code, "Printed.", "Nothing more.", "Bye.")
    async with LocalCommandLineCodeExecutor(work_dir=tmp_path) as executor:
        agent = CodeExecutorAgent("runner", executor, model_client=client, model_context=context)
        await agent.run(task="Print squares.")
        assert "line 899 808201" in text_of(seen(client, 1)), "the reflection sees the output"
        await agent.run(task="And?")
    view = text_of(seen(client))
    assert "runner succeeded. [MemoryRef: runner_" in view
    assert "line 450 202500" not in view
    key = next(s.keys[0] for s in (await context.explain()).segments if s.keys)
    assert "line 450 202500" in await context.retrieve(key)


async def test_a_team_shares_the_store_and_no_context(store: MemoryStore):
    """RoundRobin: each agent has its own context; both write to one store."""
    writer_context = MemoryContext("alice", "writer", memory_store=store)
    critic_context = MemoryContext("alice", "critic", memory_store=store)
    writer_client = model(calls(("survey", {"topic": "owls"})), "A draft.", "Better.")
    critic_client = model("Too short.", "Good.")
    writer = AssistantAgent(
        "writer", writer_client, tools=[survey], model_context=writer_context, reflect_on_tool_use=True
    )
    critic = AssistantAgent("critic", critic_client, model_context=critic_context)
    team = RoundRobinGroupChat([writer, critic], max_turns=4)
    await team.run(task="Write about owls.")
    assert [m.content for m in seen(critic_client)[1:]][:2] == ["Write about owls.", "A draft."]
    assert any("MemoryRef" in text_of([m]) for m in seen(writer_client)[1:])
    state = json.loads(json.dumps(await team.save_state()))
    assert report("owls") not in json.dumps(state)


async def test_state_of_agent_and_team_goes_through_json_into_new_objects(store: MemoryStore):
    """What was saved is shown again byte for byte by an agent that was built anew."""
    context = MemoryContext("alice", "coder", memory_store=store)
    client = model(calls(("survey", {"topic": "owls"})), "Long.", "More.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, reflect_on_tool_use=True)
    team = RoundRobinGroupChat([agent], max_turns=1)
    await team.run(task="Survey owls.")
    before = await context.get_messages()
    state = json.loads(json.dumps(await team.save_state()))

    other_context = MemoryContext("alice", "coder", memory_store=store)
    other_client = model("Continued.")
    other = AssistantAgent("coder", other_client, tools=[survey], model_context=other_context)
    other_team = RoundRobinGroupChat([other], max_turns=1)
    await other_team.load_state(state)
    assert await other_context.get_messages() == before
    assert other_context.session_id == context.session_id
    await other_team.run(task="Go on.")
    assert [m.content for m in seen(other_client)[-1:]] == ["Go on."]


@pytest.mark.thorough
async def test_a_new_process_continues_from_a_saved_state(
    store: MemoryStore, database_url: str, start_python: StartPython
):
    """Loaded by a process that knows only the database and the JSON: the same view, and the content behind it."""
    context = MemoryContext("alice", "coder", memory_store=store)
    client = model(calls(("survey", {"topic": "owls"})), "Long.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, reflect_on_tool_use=True)
    await agent.run(task="Survey owls.")
    script = """
import asyncio, json, sys
from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.messages import message_to_json
async def main():
    async with MemoryStore(sys.argv[1]) as store:
        context = MemoryContext("alice", "coder", memory_store=store)
        await context.load_state(json.load(sys.stdin)["llm_context"])
        view = [message_to_json(message) for message in await context.get_messages()]
        (key,) = [segment.keys[0] for segment in (await context.explain()).segments if segment.keys]
        print(json.dumps([view, await context.retrieve(key)]))
asyncio.run(main())
"""
    process = await start_python(script.replace("sys.argv[1]", repr(database_url)))
    out, err = await process.communicate(json.dumps(await agent.save_state()).encode())
    assert process.returncode == 0, err.decode()
    view, content = json.loads(out)
    assert view == [message_to_json(message) for message in await context.get_messages()]
    assert content == report("owls")


async def test_state_of_autogens_own_contexts_is_taken_over(store: MemoryStore):
    """Someone who moves to MemoryContext keeps their sessions."""
    client = model(calls(("survey", {"topic": "owls"})), "Long.")
    agent = AssistantAgent("coder", client, tools=[survey], reflect_on_tool_use=True)
    await agent.run(task="Survey owls.")
    state = json.loads(json.dumps(await agent.save_state()))
    context = MemoryContext("alice", "coder", memory_store=store)
    later = AssistantAgent("coder", model("On we go."), tools=[survey], model_context=context)
    await later.load_state(state)
    assert isinstance((await context.get_messages())[-1], AssistantMessage)
    assert context.stats.offloads == 1
    await later.run(task="Go on.")


async def test_an_agent_with_its_tools_survives_dump_and_load(database_url: str, store: MemoryStore, monkeypatch):
    """Component JSON names no secret and no conversation; the loaded tools find the loaded context."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)
    context = MemoryContext("alice", "coder", policy=ContextPolicy(token_budget=None))
    key = await context.store(report("owls"), "a survey of owls", source="survey")
    client = model(calls(("retrieve_memory", {"memory_key": key, "transform": "first_n", "n": 1})), "Done.")
    agent = AssistantAgent("coder", client, tools=context.tools(), model_context=context, reflect_on_tool_use=True)
    component = json.loads(agent.dump_component().model_dump_json())
    session_id = context.session_id
    await context.close()
    del agent, context
    loaded = ComponentLoader.load_component(component, AssistantAgent)
    assert isinstance(loaded.model_context, MemoryContext)
    assert loaded.model_context.session_id != session_id
    assert await loaded.model_context.get_messages() == []
    assert loaded.model_context.policy.token_budget is None
    await loaded.run(task="First line?")
    assert "owls finding 0: value 0" in text_of(await loaded.model_context.get_messages())
    await loaded.model_context.close()


async def test_tools_of_a_context_that_is_gone_say_so(store: MemoryStore):
    """A loaded tool without its context answers in a sentence."""
    context = MemoryContext("alice", "coder", memory_store=store)
    component = context.tools()[1].dump_component()
    del context
    tool = FunctionTool.load_component(component, expected=object)
    answer = await tool.run_json({"memory_key": "x"}, CancellationToken())  # type: ignore[attr-defined]
    assert answer.startswith("This tool has nothing to look in: no memory context of user 'alice'")


async def test_a_whole_placeholder_is_taken_as_its_key(context: MemoryContext):
    """Models do send it like this."""
    key = await context.store("short", "a short text")
    tool = context.tools()[1]
    ref = MemoryRef(key, "a short text", 1).render()
    assert await tool.run_json({"memory_key": ref}, CancellationToken()) == "short"
