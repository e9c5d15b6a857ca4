"""Sequences that are rare and real: each was wrong once, or easily could be."""

import asyncio
import json
import logging
import re

import pytest
from autogen_core import CancellationToken, FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from PIL import Image as PILImage

from memory_context import ContextPolicy, MemoryContext, MemoryStore, SchemaError, UserMemoryPolicy
from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.recall.tools.history import ReadHistoryTool
from tests.support.growth import assert_linear, calls_counted

from ..agents.scripted import report, text_of
from .histories import check_pairing
from .steps import a_turn_of_the_loop, add_step

IMAGE = Image(PILImage.new("RGB", (2, 2)))


def user(text: str, source: str = "user") -> UserMessage:
    return UserMessage(content=text, source=source)


def assistant(text: str) -> AssistantMessage:
    return AssistantMessage(content=text, source="coder")


async def states(context: MemoryContext, kind: str = "result") -> list[str]:
    return [segment.state for segment in (await context.explain()).segments if segment.kind == kind]


@pytest.mark.parametrize(
    "policy",
    [
        ContextPolicy(first_view_by_tool={"*": "excerpt"}, offload_threshold_tokens=200),
        ContextPolicy(first_view_by_tool={"*": "excerpt"}, offload_threshold_tokens=50),
        ContextPolicy(first_view_limit_tokens=200),
        ContextPolicy(token_budget=1000),
    ],
)
async def test_a_limit_without_room_for_an_excerpt_shows_the_placeholder(store: MemoryStore, policy: ContextPolicy):
    """Never the whole of it."""
    context = MemoryContext("alice", "coder", None, store, policy=policy)
    await add_step(context, report("owls", 3000))
    await context.get_messages()
    (segment,) = [s for s in (await context.explain()).segments if s.kind == "result"]
    assert segment.state == "excerpt"
    assert segment.tokens < 260


async def test_arguments_are_kept_as_they_were_written(store: MemoryStore):
    """Double keys, digits, escapes: shortened in the view, whole in the history and after a load."""
    arguments = '{"text":"first","text":"%s","n":0.1000000000000000055511151231257827,"s":"\\ud800"}' % ("word " * 2000)
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=1000))
    await add_step(context, "ok", arguments=arguments)
    shown = (await context.get_messages())[0].content[0].arguments
    assert "[MemoryRef: " in shown
    assert shown.isascii(), "what was escaped stays escaped"
    later = MemoryContext("alice", "coder", None, store)
    await later.load_state(json.loads(json.dumps(await context.save_state())))
    for one in (context, later):
        entry = one.transcript[0]
        assert entry.text(entry.measured[0].address) == arguments


async def test_small_results_are_not_sacrificed_to_large_arguments(store: MemoryStore):
    """Under the default policy a written file of 100k tokens is shortened; that the write failed stays to be read."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(user("Write it."))
    arguments = json.dumps({"path": "a.py", "content": "\n".join(f"line {i} of prose" for i in range(20_000))})
    await add_step(context, "ERROR: disk full", name="write_file", arguments=arguments)
    view = await context.get_messages()
    assert view[2].content[0].content == "ERROR: disk full"
    assert "[MemoryRef: write_file_content_" in view[1].content[0].arguments
    tight = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=4000))
    await add_step(tight, "Wrote 0.py", "Wrote 1.py", "ERROR: disk full", name="write_file", arguments=arguments)
    results = (await tight.get_messages())[1].content
    assert [result.content for result in results] == ["Wrote 0.py", "Wrote 1.py", "ERROR: disk full"]


async def test_one_odd_part_does_not_keep_others_from_being_stored(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A content that cannot be packed, or that the database refuses, stays inline; the rest goes."""
    context = MemoryContext("alice", "coder", None, store)
    insert = store.items.insert_memories

    async def refuse_bats(user_id, memories):
        if any("bats" in memory.content for memory in memories):
            raise ValueError("no bats here")
        return await insert(user_id, memories)

    monkeypatch.setattr(store.items, "insert_memories", refuse_bats)
    await add_step(context, report("owls"), report("bats"), report("eels"))
    assert context.stats.offloads == 2
    await add_step(context, report("newts"))
    assert context.stats.offloads == 3
    messages = [record.getMessage() for record in caplog.records if record.name == "memory_context"]
    assert messages == [
        "storing 3 contents at once failed, trying one by one: no bats here",
        "a part of message 2 stays inline for good: no bats here",
    ]


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_a_store_that_takes_nothing_is_tried_again_later(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """An old schema, a read-only replica: not the content's fault, so it is not given up."""
    context = MemoryContext("alice", "coder", None, store)

    async def refuse(user_id, memories):
        raise SchemaError("the schema is too old")

    with monkeypatch.context() as patch:
        patch.setattr(store.items, "insert_memories", refuse)
        await add_step(context, report("owls"), report("bats"))
        await add_step(context, report("eels"))
        assert context.stats.offloads == 0
    await add_step(context, report("newts"))
    assert context.stats.offloads == 4


@pytest.mark.parametrize("depth", [900, 1100, 5000])
async def test_deep_arguments_are_harmless(store: MemoryStore, depth: int):
    """However deep the JSON: either their long strings are stored or they stay as they are."""
    context = MemoryContext("alice", "coder", None, store)
    deep = '{"a":' * depth + '"' + "word " * 2000 + '"' + "}" * depth
    await add_step(context, report("owls"), arguments=deep)
    assert context.transcript[1].measured[0].stored is not None
    assert (await context.get_messages())[0].content[0].arguments == deep


def test_log_of_many_errors_beyond_ascii_is_compacted_in_linear_time():
    """Each match is counted on from the one before."""
    assert_linear(lambda text: Compactors().compact(Result(text, source="survey"), Hint()), "ERROR: é number 1\n")


async def test_images_give_way_before_the_words_of_the_task(store: MemoryStore):
    """And no more of them than it takes."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=8000))
    text = "\n".join(f"word number {i} of the task" for i in range(400))
    await context.add_message(UserMessage(content=[text, *[IMAGE] * 8], source="user"))
    (message,) = await context.get_messages()
    assert message.content[0] == text
    images = [block for block in message.content if isinstance(block, Image)]
    assert len(images) == 4
    assert str(message.content[-1]).startswith("[MemoryRef: user_")


async def test_a_loaded_agent_keeps_to_its_own_session(store: MemoryStore):
    """Two chats are loaded from one component; the tools of each answer from its own."""
    template = MemoryContext("alice", "coder", "template", store)
    component = template.tools()[2].dump_component()
    chats: list[tuple[MemoryContext, ReadHistoryTool]] = []
    for name in ("one", "two", "three"):
        tool = ReadHistoryTool.load_component(component, ReadHistoryTool)
        context = MemoryContext("alice", "coder", "template", store)
        other = MemoryContext("alice", "coder", f"chat {name}", store)
        await other.add_message(user(f"secret of {name}"))
        await context.load_state(await other.save_state())
        chats.append((context, tool))
    for name, (context, tool) in zip(("one", "two", "three"), chats, strict=True):
        await context.get_messages()
        assert f"secret of {name}" in await tool.run_json({}, CancellationToken())


async def test_the_last_context_closes_the_default_store(home):
    """One chat that ends does not end the others."""
    first, second = MemoryContext("alice", "first"), MemoryContext("alice", "second")
    assert first.memory_store is second.memory_store
    opened = asyncio.gather(second.__aenter__(), second.store("kept", "a note"))
    await first.close()
    _, key = await opened
    assert await second.retrieve(key) == "kept"
    await second.close()


async def test_history_that_is_loaded_may_say_the_same_twice(store: MemoryStore):
    """Only what is delivered now can be a re-delivery, and only of what was shown without an answer."""
    twice: list[LLMMessage] = [user("yes"), user("yes")]
    begun = MemoryContext("alice", "coder", None, store, initial_messages=twice)
    assert [m.content for m in await begun.get_messages()] == ["yes", "yes"]
    loaded = MemoryContext("alice", "coder", None, store)
    await loaded.load_state({"messages": [message.model_dump() for message in twice]})
    assert [m.content for m in await loaded.get_messages()] == ["yes", "yes"]
    team = MemoryContext("alice", "coder", None, store)
    for message in (user("task"), assistant("mine"), *[user("Still waiting.", "bob")] * 3):
        await team.add_message(message)
    assert len(await team.get_messages()) == 5


async def test_a_redelivery_is_recognised_across_a_save(store: MemoryStore):
    """The whole batch comes again after a failed call, interrupted by a save and a load."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(user("a"))
    await context.add_message(user("b", "bob"))
    await context.get_messages()
    await context.add_message(user("a"))
    later = MemoryContext("alice", "coder", None, store)
    await later.load_state(json.loads(json.dumps(await context.save_state())))
    for one in (context, later):
        await one.add_message(user("b", "bob"))
        await one.add_message(user("c"))
        assert [m.content for m in await one.get_messages()] == ["a", "b", "c"]


@pytest.mark.parametrize("state", [{}, {"messages": [{"type": "nope"}]}, {"transcript": {}}, {"messages": 7}])
async def test_a_state_that_cannot_be_read_leaves_the_session_as_it_was(store: MemoryStore, state):
    """With a ValueError."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(user("Hello."))
    with pytest.raises(ValueError, match=r"state|validation"):
        await context.load_state(state)
    assert [m.content for m in await context.get_messages()] == ["Hello."]


async def test_a_look_up_needs_no_store_to_be_recognised(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    """Also while the database is away, and after the process has ended."""
    context = MemoryContext("alice", "coder", None, store)
    key = await context.store(report("owls"), "a survey")
    answer = await context.tools()[1].run_json({"memory_key": key}, CancellationToken())
    away = MemoryContext("alice", "coder", None, MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
    away.memory_store.tool_answers = store.tool_answers
    await add_step(away, answer, name="retrieve_memory")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    state = json.loads(json.dumps(await away.save_state()))
    later = MemoryContext("alice", "coder", None, store)
    await later.load_state(state)
    await later.get_messages()
    await later.add_message(assistant("I see."))
    assert re.fullmatch(r"all of \[MemoryRef: .*\]", (await later.get_messages())[1].content[0].content)
    assert later.stats.offloads == 0


async def test_memory_tools_answer_in_words_even_without_room(store: MemoryStore):
    """The smallest limits and the longest patterns."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(first_view_limit_tokens=200))
    key = await context.store(report("owls"), "a survey")
    for arguments in (
        {"transform": "filtered", "pattern": "🜁" * 80},
        {"transform": "filtered", "pattern": "owls"},
        {"transform": "filtered", "pattern": "(?=x)"},
        {"transform": "excerpt", "start_line": 900},
        {"transform": "first_n"},
        {"transform": "filtered", "json_path": "$.a"},
        {},
    ):
        answer = await context.tools()[1].run_json({"memory_key": key, **arguments}, CancellationToken())
        assert isinstance(answer, str)
        assert 0 < context.token_counter.count(answer) <= 500
        assert "Traceback" not in answer


async def test_a_late_result_is_told_at_the_end(store: MemoryStore):
    """The agent went on without it; rewriting what it has read would cost the whole prefix."""
    context = MemoryContext("alice", "coder", None, store)
    call = FunctionCall(id="1", name="slow", arguments="{}")
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    await context.get_messages()
    await context.add_message(user("hurry"))
    await context.add_message(assistant("hm"))
    before = await context.get_messages()
    result = FunctionExecutionResult(content="done", name="slow", call_id="1", is_error=False)
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    after = await context.get_messages()
    assert after[:-1] == before
    assert after[-1] == UserMessage(content="slow returned:\ndone", source="memory")
    check_pairing(after)


async def test_the_words_of_a_hand_off_are_no_code_output(store: MemoryStore):
    """Only what follows this agent's own answer can be; a hand-off brings answers of others."""
    context = MemoryContext("alice", "second", None, store)
    await context.add_message(user("Survey owls."))
    await context.add_message(AssistantMessage(content="I hand over.", source="first"))
    await context.add_message(UserMessage(content=report("what to do"), source="first"))
    await context.get_messages()
    await context.add_message(assistant("All right."))
    assert report("what to do") in text_of(await context.get_messages())


async def test_a_message_without_results_is_not_shown(store: MemoryStore):
    """Model APIs refuse it."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(FunctionExecutionResultMessage(content=[]))
    await context.add_message(SystemMessage(content="x"))
    assert len(await context.get_messages()) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"metadata": {1: 2}}, "metadata"),
        ({"metadata": {"a": {1, 2}}}, "metadata"),
        ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"type": "two words"}, "type='two words'"),
        ({"tags": "abc"}, "tags='abc'"),
        ({"tags": [1]}, "tags="),
        ({"source": 5}, "source=5"),
    ],
)
async def test_what_a_row_would_not_give_back_is_refused(store: MemoryStore, arguments, word: str):
    """With the value and what to send."""
    context = MemoryContext("alice", "coder", None, store)
    with pytest.raises(ValueError, match=word):
        await context.store("text", "a note", **arguments)


@pytest.mark.thorough
async def test_view_of_many_parallel_results_takes_linear_work(store: MemoryStore):
    """Nothing in the way of one message is quadratic in its results, which are one transaction."""

    async def calls_for(results: int) -> int:
        context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(store_timeout_seconds=60))
        await add_step(context, *(f"result {i}\n" + "some words of it\n" * 200 for i in range(results)))
        with calls_counted() as calls:
            view = await context.get_messages()
        check_pairing(view)
        assert context.stats.write_transactions == 1
        assert context.stats.view_tokens <= 100_000
        return calls()

    await calls_for(10)  # caches are filled
    assert await calls_for(160) < 6 * await calls_for(40)


async def test_a_task_of_many_small_texts_is_shown_as_far_as_there_is_room(store: MemoryStore):
    """Texts from the end give way; the rest is said to be left out."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=4000))
    blocks = [f"requirement {i}: " + "some words that say it " * 5 for i in range(200)]
    await context.add_message(UserMessage(content=list(blocks), source="user"))
    (message,) = await context.get_messages()
    assert message.content[:100] == blocks[:100]
    assert re.search(r"\[\d+ texts left out to fit the budget; whole: read_history", "".join(message.content))
    assert 3800 <= context.stats.view_tokens <= 4000


async def test_a_small_task_outlives_many_instructions(store: MemoryStore):
    """What does not fit of the instructions folds; the task stays."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=1000))
    for i in range(30):
        await context.add_message(SystemMessage(content=f"rule {i}: " + "be careful with it " * 10))
    await context.add_message(user("Book flight 17."))
    assert (await context.get_messages())[-1].content == "Book flight 17."
    assert context.stats.view_tokens <= 1000


async def test_a_load_that_is_cancelled_changes_nothing(store: MemoryStore):
    """Texts are fetched before the session is exchanged."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(user(report("owls")))
    state = await context.save_state()
    for turns in range(6):
        policy = ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))
        later = MemoryContext("alice", "coder", None, store, policy=policy)
        await later.add_message(user("before"))
        loading = asyncio.ensure_future(later.load_state(state))
        for _ in range(turns):
            await a_turn_of_the_loop()
        while_loading = [m.content for m in await later.get_messages()]
        loading.cancel()
        await asyncio.wait([loading])
        after = [m.content for m in await later.get_messages()]
        assert while_loading in (["before"], [report("owls")])
        assert after in (["before"], [report("owls")])


async def test_results_of_a_call_that_folded_are_still_shown(store: MemoryStore):
    """An application may look while calls are under way."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=2000))
    calls = [FunctionCall(id=f"{i}", name="look", arguments='{"where": "' + "far away " * 20 + '"}') for i in range(40)]
    await context.add_message(AssistantMessage(content=calls, source="coder"))
    await context.get_messages()
    results = [FunctionExecutionResult(content=f"RESULT {i}", name="look", call_id=f"{i}") for i in range(40)]
    await context.add_message(FunctionExecutionResultMessage(content=results))
    view = await context.get_messages()
    assert "RESULT 39" in text_of(view)
    check_pairing(view)


@pytest.mark.thorough
async def test_unanswered_words_of_others_are_shortened_in_batches(store: MemoryStore):
    """Down to a share of the budget, so that the head stays as it is most of the time."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=16_000))
    await context.add_message(user("Go."))
    await context.get_messages()
    await context.add_message(assistant("I wait."))
    for i in range(60):
        await context.add_message(user(f"message {i}\n" + "word and another word\n" * 200, "bob"))
        await context.get_messages()
    assert context.stats.view_tokens <= 16_000
    assert context.stats.stable_share > 0.75


async def test_stats_go_on_with_a_loaded_state(store: MemoryStore):
    """Those of the session, which are recorded; transactions are the process's own."""
    context = MemoryContext("alice", "coder", None, store)
    await add_step(context, report("owls"))
    later = MemoryContext("alice", "coder", None, store)
    await later.load_state(await context.save_state())
    assert (later.stats.offloads, later.stats.write_transactions) == (1, 0)
