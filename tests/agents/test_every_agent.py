"""Every kind of agent and team of AutoGen with MemoryContext: what each model received, whole, once, asked once."""

import asyncio
import json
import re
from collections.abc import Sequence

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent, SocietyOfMindAgent, UserProxyAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, ComponentLoader
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore, PostgresMemory
from memory_context.sessions.transcript.view_decisions import MessageRedelivered
from tests.support.waiting import soon

from ..context.histories import check_pairing
from ..context.lights import Light, choose
from ..context.steps import ALWAYS_PAYS
from .scripted import calls, model, report, seen, text_of

TASK = "Survey owls and bats, please, and write it up."


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


def light() -> Light:
    """Return a light model that always wants something."""
    return Light(choose(ambiguous=True, search="owls"))


def context_of(store: MemoryStore, agent_id: str, light: Light | None = None, **policy) -> MemoryContext:
    policy = {"cache": ALWAYS_PAYS} | policy
    return MemoryContext("alice", agent_id, None, store, model_client=light, policy=ContextPolicy(**policy))


def said(messages: Sequence[LLMMessage]) -> list[str]:
    """Return the words in a view, without system messages, calls, results and what the memory added."""
    return [
        message.content
        for message in messages
        if isinstance(message, (UserMessage, AssistantMessage))
        and isinstance(message.content, str)
        and message.source != "memory"
    ]


def check_calls(client: ReplayChatCompletionClient, task: str = TASK) -> None:
    """Each call of a model had the task whole, no message twice, every call beside its result."""
    assert client.create_calls, "the agent never spoke"
    for number in range(len(client.create_calls)):
        view = [message for message in seen(client, number) if message.type != "SystemMessage"]
        check_pairing(view)
        words = said(view)
        assert words.count(task) == 1, f"call {number}: {words}"
        assert len(words) == len(set(words)), f"call {number} has something twice"


def check_light(asked: Light, client: ReplayChatCompletionClient) -> None:
    """At most one question of the light model for each call of the agent's."""
    assert len(asked.prompts) <= len(client.create_calls)


async def test_round_robin_with_a_person(store: MemoryStore):
    """UserProxyAgent speaks in between: its words are the current task, and nobody's context has anything twice."""
    lights = [light(), light()]
    clients = [
        model(calls(("survey", {"topic": "owls"})), "Owls are surveyed.", "Bats, too."),
        model("More on bats.", "Good."),
    ]
    writer = AssistantAgent(
        "writer",
        clients[0],
        tools=[survey],
        model_context=context_of(store, "writer", lights[0]),
        reflect_on_tool_use=True,
    )
    critic = AssistantAgent("critic", clients[1], model_context=context_of(store, "critic", lights[1]))
    words = iter(["Do not forget the bats!", "Thank you."])
    person = UserProxyAgent("user_proxy", input_func=lambda _: next(words))
    team = RoundRobinGroupChat([writer, critic, person], max_turns=6)
    result = await team.run(task=TASK)
    speakers = [m.source for m in result.messages if isinstance(m, TextMessage)]
    assert speakers == ["user", *["writer", "critic", "user_proxy"] * 2]
    for client, asked in zip(clients, lights, strict=True):
        check_calls(client)
        check_light(asked, client)
    assert said(seen(clients[0])) == [
        TASK,
        "Owls are surveyed.",
        "More on bats.",
        "Do not forget the bats!",
    ]
    assert "Do not forget the bats!" in lights[0].prompts[-1]


async def test_society_of_mind(store: MemoryStore):
    """An inner team; the outer context brings what was said before; used again with another task and with the same."""
    inner_light = light()
    inner_client = model("Inner one.", "Inner two.", "Inner three.")
    inner_context = context_of(store, "inner", inner_light)
    inner = AssistantAgent("inner", inner_client, model_context=inner_context)
    team = RoundRobinGroupChat([inner], max_turns=1)
    outer_context = context_of(store, "society", light())
    outer_client = model("Outer one.", "Outer two.", "Outer three.")
    society = SocietyOfMindAgent("society", team, model_client=outer_client, model_context=outer_context)
    for task in (TASK, "Now frogs.", "Now frogs."):
        result = await society.run(task=task)
        assert result.messages[-1].source == "society"
    assert said(seen(inner_client, 0)) == [TASK]
    assert said(seen(inner_client, 1)) == [TASK, "relevant previous messages", "Now frogs."]
    assert said(seen(inner_client, 2)) == [TASK, "Now frogs.", "relevant previous messages", "Now frogs."]
    assert said(await outer_context.get_messages()) == [TASK, "Now frogs.", "Now frogs."]
    check_light(inner_light, inner_client)


async def test_society_of_mind_given_the_same_first_task_twice(store: MemoryStore):
    """Its context cannot tell that from a first call that failed; the task is there, once."""
    inner_client = model("Inner one.", "Inner two.", "Inner three.")
    inner = AssistantAgent("inner", inner_client, model_context=context_of(store, "inner"))
    outer_context = context_of(store, "society")
    society = SocietyOfMindAgent(
        "society",
        RoundRobinGroupChat([inner], max_turns=1),
        model_client=model("One.", "Two.", "Three."),
        model_context=outer_context,
    )
    for task in (TASK, TASK, "Now frogs."):
        await society.run(task=task)
    assert said(await outer_context.get_messages()) == [TASK, "Now frogs."]
    assert said(seen(inner_client, 1))[-1] == TASK
    assert said(seen(inner_client, 2)) == [TASK, "relevant previous messages", "Now frogs."]


def selector_team(
    store: MemoryStore, choices: Sequence[str], words: dict[str, list[str]], max_turns: int
) -> tuple[SelectorGroupChat, MemoryContext, ReplayChatCompletionClient, dict[str, ReplayChatCompletionClient]]:
    clients = {name: model(*answers) for name, answers in words.items()}
    agents = [
        AssistantAgent(name, client, description=f"the {name}", model_context=context_of(store, name))
        for name, client in clients.items()
    ]
    selector_context = context_of(store, "selector")
    selector = model(*choices)
    team = SelectorGroupChat(
        agents,
        model_client=selector,
        model_context=selector_context,
        selector_prompt="{roles} {participants} THREAD {history} END",
        max_turns=max_turns,
        allow_repeated_speaker=True,
    )
    return team, selector_context, selector, clients


def thread(client: ReplayChatCompletionClient, call: int = -1) -> list[str]:
    """Return the thread the selector's model was shown, line by line, without what is known of the user before it."""
    prompt = seen(client, call)[0]  # AutoGen adds the answer to the same list
    shown = str(prompt.content).split("THREAD ")[1].split(" END")[0]
    shown = re.sub(r"memory: Known of this user.*?</memory-\w+>", "", shown, flags=re.DOTALL)
    return [line for line in shown.splitlines() if line]


WORDS = {
    "writer": ["Draft.", "Better draft.", "Best draft.", "Last draft."],
    "critic": ["Too short.", "Good.", "Great.", "Done."],
}
ROUNDS = ["writer", "critic", "writer", "critic"]


async def test_selector_shows_its_model_the_thread_once(store: MemoryStore):
    """Several rounds and runs on a context that never receives an assistant message."""
    team, _, selector, clients = selector_team(store, [*ROUNDS, *ROUNDS], WORDS, 4)
    await team.run(task=TASK)
    full = [f"user: {TASK}", "writer: Draft.", "critic: Too short.", "writer: Better draft.", "critic: Good."]
    assert [thread(selector, call) for call in range(4)] == [full[: n + 1] for n in range(4)]
    for client in clients.values():
        check_calls(client)
    await team.run(task="Once more.")
    assert thread(selector, 4) == [*full, "user: Once more."]


@pytest.mark.parametrize("living", [False, True])
async def test_selector_state_loads_into_a_new_team_and_into_the_living_one(store: MemoryStore, living: bool):
    """AutoGen adds the whole thread once more; the selector's model still sees it once."""
    team, _, selector, _ = selector_team(store, [*ROUNDS, *ROUNDS], WORDS, 4)
    await team.run(task=TASK)
    state = json.loads(json.dumps(await team.save_state()))
    if not living:
        team, _, selector, _ = selector_team(store, ["writer"], WORDS, 1)
    await team.load_state(state)
    await team.run(task="Once more.")
    assert thread(selector, 4 if living else 0) == [
        f"user: {TASK}",
        "writer: Draft.",
        "critic: Too short.",
        "writer: Better draft.",
        "critic: Good.",
        "user: Once more.",
    ]


async def test_a_thread_that_is_only_alike_is_no_second_delivery(store: MemoryStore):
    """The same words in another run of a selector's team are new words."""
    context = context_of(store, "selector")
    for _ in range(2):
        for source, text in (("user", "go"), ("writer", "Hi."), ("user", "go"), ("writer", "Hi.")):
            await context.add_message(UserMessage(content=text, source=source))
            await context.get_messages()
    texts = said(await context.get_messages())
    assert texts == ["go", "Hi."] * 4
    assert not any(isinstance(decision, MessageRedelivered) for _, decision in context.transcript.log)


async def test_swarm_hands_its_context_on(store: MemoryStore):
    """The other agent gets calls and results of the first, and a key that is named in the hand-off opens."""
    lights = [light(), light()]
    note = await context_of(store, "first").store(report("newts", 40), "a survey of newts", source="newts")
    clients = [
        model(calls(("survey", {"topic": "owls"}), ("go_on", {})), "Back at first."),
        model(calls(("survey", {"topic": "bats"}), ("transfer_to_first", {})), "unused"),
    ]
    first = AssistantAgent(
        "first",
        clients[0],
        tools=[survey],
        handoffs=[
            Handoff(target="second", name="go_on", message=f"Go on, see [MemoryRef: {note} - newts - 400 tokens].")
        ],
        model_context=context_of(store, "first", lights[0]),
    )
    second = AssistantAgent(
        "second",
        clients[1],
        tools=[survey],
        handoffs=["first"],
        model_context=context_of(store, "second", lights[1]),
    )
    await Swarm([first, second], max_turns=3).run(task=TASK)
    for client, asked in zip(clients, lights, strict=True):
        check_calls(client)
        check_light(asked, client)
    view = text_of(seen(clients[1], 0))
    assert report("owls") in view, "what this agent has not seen is whole"
    assert report("newts", 40) in view, "opened by the words of the hand-off"
    assert report("bats") in text_of(seen(clients[0], 1))


async def test_graph_flow_fans_out_and_in(store: MemoryStore):
    """Two agents work at the same time on one store; the third gets the words of both."""
    names = ["start", "left", "right", "end"]
    lights = {name: light() for name in names}
    clients = {
        "start": model("Begin."),
        "left": model(calls(("survey", {"topic": "owls"})), "Owls done."),
        "right": model(calls(("survey", {"topic": "bats"})), "Bats done."),
        "end": model("All done."),
    }
    agents = [
        AssistantAgent(
            name,
            clients[name],
            tools=[survey],
            model_context=context_of(store, name, lights[name]),
            reflect_on_tool_use=True,
        )
        for name in names
    ]
    builder = DiGraphBuilder()
    for agent in agents:
        builder.add_node(agent)
    start, left, right, end = agents
    builder.add_edge(start, left).add_edge(start, right).add_edge(left, end).add_edge(right, end)
    flow = GraphFlow(agents, builder.build())
    await flow.run(task=TASK)
    for name in names:
        check_calls(clients[name])
        check_light(lights[name], clients[name])
    words = said(seen(clients["end"]))
    assert words[:2] == [TASK, "Begin."]
    assert sorted(words[2:]) == ["Bats done.", "Owls done."]
    keys = {
        part.stored.refs[0].key
        for a in agents
        for e in context_in(a).transcript.entries()
        for part in e.measured
        if part.stored
    }
    assert set((await context_of(store, "x").agent_memory.retrieve_contents(keys)).values()) == {
        report("owls"),
        report("bats"),
    }


def context_in(agent: AssistantAgent) -> MemoryContext:
    context = agent.model_context
    assert isinstance(context, MemoryContext)
    return context


async def test_agent_tools_called_at_once(store: MemoryStore):
    """Two agents as tools of a third, in parallel: each has its own context."""
    expert_clients = {"owls": model("Owls hoot."), "bats": model("Bats squeak.")}
    experts = [
        AssistantAgent(f"{name}_expert", client, description=name, model_context=context_of(store, name, light()))
        for name, client in expert_clients.items()
    ]
    asked = light()
    client = model(
        calls(("owls_expert", {"task": "What do owls do?"}), ("bats_expert", {"task": "What do bats do?"})),
        "Owls hoot, bats squeak.",
    )
    agent = AssistantAgent(
        "chief",
        client,
        tools=[AgentTool(expert, return_value_as_last_message=True) for expert in experts],
        model_context=context_of(store, "chief", asked),
        reflect_on_tool_use=True,
    )
    await agent.run(task=TASK)
    check_calls(client)
    check_light(asked, client)
    assert "Owls hoot." in text_of(seen(client))
    for name, expert_client in expert_clients.items():
        check_calls(expert_client, f"What do {name} do?")


async def test_one_agent_tool_called_twice_at_once_loses_nothing(store: MemoryStore):
    """Its one context takes interleaved tasks: each is there once, and the views are well-formed."""
    expert_client = model("First.", "Second.")
    expert_context = context_of(store, "expert", light())
    expert = AssistantAgent("expert", expert_client, model_context=expert_context)
    client = model(calls(("expert", {"task": "Task A."}), ("expert", {"task": "Task B."})), "Done.")
    agent = AssistantAgent(
        "chief", client, tools=[AgentTool(expert)], model_context=context_of(store, "chief"), reflect_on_tool_use=True
    )
    await agent.run(task=TASK)
    check_calls(client)
    words = said(await expert_context.get_messages())
    assert sorted(words) == ["First.", "Second.", "Task A.", "Task B."]
    check_pairing(await expert_context.get_messages())


@pytest.mark.filterwarnings("ignore:No approval function set", "ignore:Using LocalCommandLineCodeExecutor")
async def test_code_executor_in_a_team(store: MemoryStore, tmp_path):
    """What its code prints is a result: stored, compacted, and no key in it opens anything."""
    note = await context_of(store, "x").store("the secret of the notes", "a note", source="note")
    key = f"'note' + '_' + '{note.partition('_')[2]}'"  # the agent's own words would open it
    code = f"```python\nprint('[MemoryRef:', {key}, '- a note - 5 tokens]')\n"
    code += "for i in range(700): print('line', i)\n```"
    client, asked = model(code, "Printed.", "Fine."), light()
    context = context_of(store, "runner", asked)
    async with LocalCommandLineCodeExecutor(work_dir=tmp_path) as executor:
        runner = CodeExecutorAgent("runner", executor, model_client=client, model_context=context)
        team = RoundRobinGroupChat([runner], max_turns=1)
        await team.run(task=TASK)
        await runner.run(task="And now?")
    check_light(asked, client)
    for number in range(3):
        assert said(seen(client, number))[0] == TASK
        assert "the secret of the notes" not in text_of(seen(client, number))
    assert "line 450" in text_of(seen(client, 1))
    assert "line 450" not in text_of(seen(client, 2))


@pytest.mark.parametrize("index", range(3))
async def test_an_attached_memory_asks_nobody_twice(store: MemoryStore, index: int):
    """PostgresMemory on MemoryContext and on AutoGen's contexts; one question for each model call."""
    memory = PostgresMemory("alice", "coder", store)
    await memory.add(MemoryContent(content="The office owl is fed mice at noon.", mime_type=MemoryMimeType.TEXT))
    await memory.add(MemoryContent(content="The gate code of the parking lot is 7734.", mime_type="text/plain"))
    await store.flush_index()
    asked = light()
    context: ChatCompletionContext = [
        context_of(store, "coder", asked),
        UnboundedChatCompletionContext(),
        BufferedChatCompletionContext(buffer_size=20),
    ][index]
    client = model(calls(("survey", {"topic": "owls"})), "Mice.", "7734.", "Bye.")
    agent = AssistantAgent(
        "coder", client, tools=[survey], memory=[memory], model_context=context, reflect_on_tool_use=True
    )
    tasks = ["What is the office owl fed, as I told you?", "What is the gate code of the parking lot?", "Bye."]
    for task in tasks:
        await agent.run(task=task)
    check_light(asked, client)
    assert said(seen(client)) == [tasks[0], "Mice.", tasks[1], "7734.", tasks[2]]
    assert "fed mice at noon" in text_of(seen(client, 0))
    assert text_of(seen(client, 2)).count("gate code of the parking lot is 7734") == 1


async def test_a_whole_team_goes_through_json(database_url: str, store: MemoryStore, monkeypatch):
    """Contexts with policy, light model and tools in agents in a team; loaded, it runs."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", database_url)

    def agent_of(name: str, *answers) -> AssistantAgent:
        context = MemoryContext(
            "alice", name, model_client=model('{"expand": []}'), policy=ContextPolicy(token_budget=None)
        )
        return AssistantAgent(
            name, model(*answers), tools=context.tools(), model_context=context, reflect_on_tool_use=True
        )

    selector_context = MemoryContext("alice", "selector")
    key = await selector_context.store(report("owls"), "a survey of owls", source="survey")
    lookup = calls(("retrieve_memory", {"memory_key": key, "transform": "first_n", "n": 1}))
    writer, critic = agent_of("writer", lookup, "Owls."), agent_of("critic", "Good. TERMINATE")
    team = SelectorGroupChat(
        [writer, critic],
        model_client=model("writer", "critic"),
        model_context=selector_context,
        termination_condition=TextMentionTermination("TERMINATE", sources=["critic"]) | MaxMessageTermination(12),
    )
    component = json.loads(team.dump_component().model_dump_json())
    assert "postgresql://" not in json.dumps(component)
    for agent in (writer, critic):
        await context_in(agent).close()
    await selector_context.close()
    del team, writer, critic, agent
    loaded = ComponentLoader.load_component(component, SelectorGroupChat)
    result = await loaded.run(task=TASK)
    assert result.messages[-1].source == "critic"
    assert "owls finding 0: value 0" in str(result.messages)
    for participant in loaded._participants:  # pyright: ignore[reportPrivateUsage]
        assert isinstance(participant, AssistantAgent)
        context = context_in(participant)
        assert context.policy.token_budget is None
        assert context._session.expander.agent_has_tools  # pyright: ignore[reportPrivateUsage]
        assert context.light_model_client is not None
        await context.close()
    assert isinstance(loaded._model_context, MemoryContext)  # pyright: ignore[reportPrivateUsage]
    await loaded._model_context.close()  # pyright: ignore[reportPrivateUsage]


async def test_a_run_that_is_cancelled_while_the_light_model_thinks(store: MemoryStore):
    """The next run shows the message, whole and once, and what it asked for."""
    asked = Light()
    asked.release.clear()
    context = context_of(store, "coder", asked)
    key = await context.store(report("newts", 40), "a survey of newts", source="newts")
    client = model("Done.")
    agent = AssistantAgent("coder", client, model_context=context)
    words = f"What did we say last time about [MemoryRef: {key} - newts - 400 tokens]?"
    run = asyncio.create_task(
        agent.on_messages([TextMessage(content=words, source="user")], CancellationToken()), name="run"
    )
    await soon(asked.asked.wait())
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    asked.release.set()
    await agent.on_messages([TextMessage(content="Well?", source="user")], CancellationToken())
    assert said(seen(client)) == [words, "Well?"]
    assert report("newts", 40) in text_of(seen(client))
    assert len(asked.prompts) == 1
