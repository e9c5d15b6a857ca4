"""Folding, the history behind it, and what explain and stats say of it all."""

import re

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, SystemMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.view.history import FoldedLines, history_text

from ..agents.scripted import report, text_of
from .steps import add_step

counter = default_token_counter()


@pytest.fixture
async def folded(store: MemoryStore) -> MemoryContext:
    """A session of two turns whose older steps folded."""
    policy = ContextPolicy(token_budget=4000)
    context = MemoryContext("alice", "coder", "the session", store, policy=policy)
    await context.add_message(SystemMessage(content="Be brief."))
    await context.add_message(UserMessage(content="Survey the birds.", source="user"))
    for i in range(12):
        await add_step(context, report(f"bird {i}", 60), f"note {i}\n" * 40)
    await context.add_message(UserMessage(content="Now the fish.", source="user"))
    for i in range(12):
        await add_step(context, report(f"fish {i}", 60))
    await context.get_messages()
    return context


async def test_older_steps_are_one_dated_placeholder_that_keeps_words_and_keys(folded: MemoryContext):
    """The system message and the current task stay; the user's older words are quoted."""
    view = await folded.get_messages()
    folds = [m for m in view if isinstance(m, UserMessage) and m.source == "memory"]
    assert len(folds) == 1
    assert re.match(
        r"\[MemoryRef: history_2-\d+_[0-9a-f]{6} - messages 2-\d+ of this session, \d+ tool steps, "
        r"\d{4}-\d\d-\d\d \d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d UTC - \d+ tokens\]",
        folds[0].content,
    )
    assert "- user said: Survey the birds.\n- survey_" in folds[0].content
    assert view[0].content == "Be brief."
    assert [m.content for m in view if isinstance(m, UserMessage) and m.source == "user"] == ["Now the fish."]
    assert folded.stats.folds >= 1
    assert folded.stats.view_tokens <= 4000


@pytest.mark.parametrize("listed", [0, 1, 7, 19, 20])
def test_fold_lists_the_newest_lines_that_fit_and_counts_the_older_ones(listed: int):
    """Of 20: the limit leaves room for so many, for the head, and for the line that counts the others."""
    transcript = Transcript.of(UserMessage(content=f"request {number:02}", source="user") for number in range(20))
    ref = MemoryRef("history_1-20_abcdef", "messages 1-20", 100)

    def folded(limit_tokens: int) -> list[str]:
        return (
            FoldedLines(transcript, ContextPolicy()).text(ref, transcript.end, (), limit_tokens, counter).splitlines()
        )

    head = folded(10**6)[:2]
    lines = [f"- user said: request {number:02}" for number in range(20)]
    assert folded(10**6) == [*head, *lines], "nothing is older if all is there"
    limit = counter.count("\n".join(head)) + 20 + sum(counter.count(line) + 1 for line in lines[20 - listed :])
    older = [] if listed == 20 else [f"- ({20 - listed} older ones are in the history)"]
    assert folded(limit) == [*head, *older, *lines[20 - listed :]]
    assert counter.count("\n".join(folded(limit))) <= limit
    if listed:
        assert f"- ({21 - listed} older ones are in the history)" in folded(limit - 1)


async def test_folds_are_rare_and_leave_the_head_as_it_is(store: MemoryStore):
    """Down to 0.6 of the budget each time, so that most views only grow."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=8000))
    for _ in range(60):
        await add_step(context, "a small result that stays inline\n" * 30)
        await context.get_messages()
    assert 2 <= context.stats.folds <= 12
    assert context.stats.stable_share > 0.6


async def test_a_folds_key_opens_its_messages(folded: MemoryContext):
    """Small results verbatim, stored ones as placeholders, whole or by pattern."""
    key = next(s.keys[0] for s in (await folded.explain()).segments if s.kind == "fold")
    whole = await folded.retrieve(key)
    assert "(2) user said:\nSurvey the birds." in whole
    assert "note 0\nnote 0" in whole
    assert "survey succeeded. [MemoryRef: survey_" in whole
    found = await folded.retrieve(key, "filtered", pattern="^note 7$", context_lines=0, max_matches=1)
    assert "note 7" in found
    other = MemoryContext("alice", "coder", "another session", folded.memory_store)
    answer = await other.tools()[1].run_json({"memory_key": key}, CancellationToken())
    assert answer.startswith(f"no item '{key}' in this memory"), "it is not another session's history"


async def test_read_history_pages_the_whole_session(folded: MemoryContext):
    """Following each page's next call gives every message once, in order."""
    tool = folded.tools()[2]
    pages: list[str] = []
    arguments: dict[str, int] = {}
    while True:
        page = await tool.run_json(arguments, CancellationToken())
        assert folded.token_counter.count(page) <= folded.policy.result_limit_tokens
        pages.append(page.rpartition("\n[message")[0])
        following = re.search(r"Next: read_history\((.*)\)\]$", page)
        if following is None:
            assert page.endswith("That is all.]")
            break
        arguments = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", following[1])}
    assert "\n".join(pages) == "\n".join(history_text(entry) for entry in folded.transcript.entries())
    assert len(pages) > 1
    assert "there is no message 999; this session has messages 1-" in await tool.run_json(
        {"first_message": 999}, CancellationToken()
    )


async def test_a_long_message_is_paged_by_characters(store: MemoryStore):
    """With the store away nothing is stored, so the history itself has all of it."""
    context = MemoryContext("alice", "coder", None, MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
    text = report("owls", 3000)
    await context.add_message(UserMessage(content=text, source="user"))
    tool = context.tools()[2]
    read, arguments = "", {}
    while True:
        page = await tool.run_json(arguments, CancellationToken())
        following = re.search(r"Next: read_history\(first_message=(\d+), first_character=(\d+)\)\]$", page)
        read += page.rpartition("\n[message")[0]
        if following is None:
            break
        arguments = {"first_message": int(following[1]), "first_character": int(following[2])}
    assert read == f"(1) user said:\n{text}"


async def test_answer_of_read_history_collapses_to_its_reference(folded: MemoryContext):
    """It is a look-up like any other."""
    page = await folded.tools()[2].run_json({}, CancellationToken())
    offloads = folded.stats.offloads
    await add_step(folded, page, name="read_history")
    assert page in text_of(await folded.get_messages())
    await folded.add_message(AssistantMessage(content="I see.", source="coder"))
    assert folded.stats.offloads == offloads
    results = [m for m in await folded.get_messages() if isinstance(m, FunctionExecutionResultMessage)]
    assert re.fullmatch(
        r"messages 1-\d+ of this session, by read_history\(first_message=1\)", results[-1].content[0].content
    )


async def test_clear_empties_the_view_and_keeps_the_items(folded: MemoryContext):
    """Items stay readable; the history begins anew."""
    key = next(s.keys[0] for s in (await folded.explain()).segments if s.kind == "result" and s.keys)
    content = await folded.retrieve(key)
    await folded.clear()
    assert await folded.get_messages() == []
    assert {change.reason for change in (await folded.explain()).changes} == {"cleared"}
    assert await folded.retrieve(key) == content
    assert "this session has no messages yet" in await folded.tools()[2].run_json({}, CancellationToken())
    await folded.add_message(UserMessage(content="Again.", source="user"))
    assert [m.content for m in await folded.get_messages()] == ["Again."]
    assert {change.reason for change in (await folded.explain()).changes} == {"added"}


async def test_explain_lists_every_segment_and_every_change(store: MemoryStore):
    """With source, tokens, state, and the decision behind each difference; it hands out nothing."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(UserMessage(content="Go.", source="user"))
    await add_step(context, report("owls"), "short")
    await context.get_messages()
    shown = context.transcript.state.shown
    await context.add_message(AssistantMessage(content="Seen.", source="coder"))
    await context.get_messages()
    explained = await context.explain()
    assert explained.tokens == context.stats.view_tokens == sum(s.tokens for s in explained.segments) + 4 * 4
    states = [(s.position, s.kind, s.source, s.state) for s in explained.segments]
    assert states == [
        (0, "text", "user", "full"),
        (1, "arguments", "survey", "full"),
        (1, "arguments", "survey", "full"),
        (2, "result", "survey", "placeholder"),
        (2, "result", "survey", "full"),
        (3, "text", "coder", "full"),
    ]
    assert [(c.position, c.before, c.after, c.reason) for c in explained.changes] == [
        (2, "full", "placeholder", "consumed"),
        (3, None, "full", "added"),
    ]
    assert "survey" in str(explained)
    assert await context.explain() == explained
    assert context.transcript.state.shown == shown + 1


@pytest.mark.thorough
async def test_explain_lists_all_decisions_of_the_last_view_only(store: MemoryStore):
    """Also the first of a session, which nothing stands before, and the first after a view."""
    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(token_budget=1000))
    told = 0
    for turn in range(2):
        for number in range(150):  # too short to be shortened
            await context.add_message(UserMessage(content=f"this is request {turn}.{number}", source="user"))
        await context.get_messages()
        *folds, shown = [one for _, one in context.transcript.log[told:] if one.kind != "prices"]
        told = len(context.transcript.log)
        assert {(fold.kind, shown.kind) for fold in folds} == {("folded", "shown")}
        decided = (await context.explain()).decisions
        assert [(one.what, one.reason, one.arithmetic) for one in decided] == [
            ("folded", "budget", fold.arithmetic) for fold in folds
        ]
        assert [one.count for one in decided] == [fold.upto - len(fold.kept) for fold in folds]
    await context.add_message(AssistantMessage(content="Seen.", source="coder"))
    await context.get_messages()
    assert (await context.explain()).decisions == (), "that was decided for the view before"


async def test_first_view_placeholder_compacts_results_at_once(store: MemoryStore):
    """A large result is never shown; with "excerpt" its passages are shown within the threshold."""
    at_once = MemoryContext(
        "alice", "coder", None, store, policy=ContextPolicy(first_view_by_tool={"*": "placeholder"})
    )
    await add_step(at_once, report("owls"))
    assert (await at_once.get_messages())[1].content[0].content.startswith("survey succeeded. [MemoryRef: survey_")
    excerpted = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(first_view_by_tool={"*": "excerpt"}))
    await add_step(excerpted, report("owls"))
    content = (await excerpted.get_messages())[1].content[0].content
    assert "owls finding 0: value 0" in content
    assert re.search(r"\[… lines \d+-\d+ left out: retrieve_memory\(memory_key=\"survey_\w+\", (start|end)_", content)
    assert excerpted.token_counter.count(content) <= 500


async def test_invalid_state_is_refused_and_changes_nothing(folded: MemoryContext):
    """Of another user, of a newer version, or nonsense."""
    before = await folded.get_messages()
    state = dict(await folded.save_state())
    for broken, message in (
        ({**state, "user_id": "bob"}, "belongs to user 'bob'"),
        ({**state, "transcript": {**state["transcript"], "version": 99}}, "has version 99"),
        ({**state, "transcript": {"version": 1}}, "no saved transcript"),
        ({**state, "transcript": {**state["transcript"], "entries": [{}]}}, "no saved transcript"),
    ):
        with pytest.raises(ValueError, match=message):
            await folded.load_state(broken)
    assert await folded.get_messages() == before


async def test_fold_that_brings_memory_tools_compacts_in_the_same_call(store: MemoryStore):
    """All behind the fold is read anew, so a compaction one call later would have it read twice."""
    policy = ContextPolicy(view_target_tokens=2000)
    context = MemoryContext("alice", "coder", "the session", store, policy=policy)
    context.workbench()
    await context.add_message(UserMessage(content="Survey the birds.", source="user"))
    for i in range(9):
        await add_step(context, f"note {i} of the birds\n" * 16)
    await add_step(context, report("owl", 65))
    await context.get_messages()
    assert (context.stats.offloads, context.stats.folds, context.stats.tools_offered) == (1, 0, "")
    await context.add_message(AssistantMessage(content="Owls are next. " * 100, source=context.agent_id))
    await context.get_messages()
    assert context.stats.folds == 1
    assert context.stats.tools_offered == "fold"
    assert not context.transcript.state.answered_whole
