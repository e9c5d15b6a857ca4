"""What stays of a result: chosen by the agent's answer, once, and kept through a load; or nothing is compacted."""

import json
import re

import pytest
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, UserMessage

from memory_context import CompactionPolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen

from ..agents.scripted import report, text_of
from .steps import ALWAYS_PAYS, NEVER_PAYS, add_step

SOURCE = "\n\n".join(
    f"def handle_{what}(request):\n    check_{what}_rights(request)\n    write_{what}_journal(request)\n"
    + "    pass  # and so on\n" * 30
    for what in ("refund", "parcel", "invoice", "voucher", "coupon")
)


def user(text: str) -> UserMessage:
    return UserMessage(content=text, source="user")


def assistant(text: str) -> AssistantMessage:
    return AssistantMessage(content=text, source="coder")


def results(view: list[LLMMessage]) -> list[str]:
    return [r.content for m in view if isinstance(m, FunctionExecutionResultMessage) for r in m.content]


def retained(context: MemoryContext) -> list[CompactedTextChosen]:
    return [decision for _, decision in context.transcript.log if isinstance(decision, CompactedTextChosen)]


@pytest.fixture(autouse=True)
def _no_line_names_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContextPolicy, "names_first_view", lambda self, agent_has_tools: False)


def context_of(store: MemoryStore, compactors: Compactors | None = None, **policy) -> MemoryContext:
    policy = {"cache": ALWAYS_PAYS} | policy
    return MemoryContext("alice", "coder", None, store, policy=ContextPolicy(**policy), compactors=compactors)


async def read_and_answered(context: MemoryContext, words: str) -> str:
    """Let the agent read a source file for a task and say something; return what stays of the file."""
    await context.add_message(user("Please look at what happens with the parcel."))
    await add_step(context, SOURCE, name="read_file")
    assert results(await context.get_messages()) == [SOURCE], "fresh, it is whole"
    await context.add_message(assistant(words))
    return results(await context.get_messages())[0]


async def test_the_answer_decides_what_is_kept(store: MemoryStore):
    """A compactor is told what the agent said after it had seen the result; what it named itself is not repeated."""
    hints: list[Hint] = []
    compactors = Compactors()

    @compactors.register("read_file")
    def compact(result: Result, hint: Hint) -> Compacted:
        hints.append(hint)
        return Compacted("Read.", "a file", f"asked: {hint.answer}")

    kept = await read_and_answered(context_of(store, compactors), "I look into write_voucher_journal next.")
    assert kept.endswith("asked: I look into write_voucher_journal next.")
    fresh, answered = hints
    assert (fresh.answer, fresh.facts_limit_tokens) == ("", 0)
    assert (answered.answer, answered.facts_limit_tokens) == ("I look into write_voucher_journal next.", 280)
    assert answered.task == "Please look at what happens with the parcel."
    assert "write_voucher_journal" in answered.known
    assert "check_parcel_rights" not in answered.known

    plain = context_of(store)
    kept = await read_and_answered(plain, "I look into write_voucher_journal next.")
    assert "write_voucher_journal" not in kept, "it stands in the answer"
    assert "check_parcel_rights" in kept
    assert await read_and_answered(context_of(store), "The file is write_coupon_journal's.") != kept


async def test_what_stays_is_chosen_once_and_the_same_after_a_load(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Recorded when answered, shown with the compaction, whenever that comes and whatever was said in between."""
    monkeypatch.setattr("memory_context.view.budget._FOLD_TO_RATIO", 0.95)
    context = context_of(store, cache=NEVER_PAYS, token_budget=6000)
    whole = await read_and_answered(context, "I look into write_voucher_journal next.")
    assert whole == SOURCE, "nothing pays, so it stays whole"
    (choice,) = retained(context)
    await context.add_message(user("And check_refund_rights?"))
    await context.get_messages()
    later = context_of(store, cache=NEVER_PAYS, token_budget=6000)
    await later.load_state(json.loads(json.dumps(await context.save_state())))
    for one in (context, later):
        assert results(await one.get_messages()) == [SOURCE]
        await one.add_message(assistant("Yes. " * 10))
        await one.add_message(user(report("plan", 560)))  # which the budget has no room for beside it
        assert results(await one.get_messages()) == [choice.text]
        assert retained(one) == [choice]
    assert await later.get_messages() == await context.get_messages()


async def test_a_saved_state_does_not_grow_with_the_outputs(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Whole or compacted, a stored result is a reference and what stays of it."""
    monkeypatch.setattr("memory_context.compaction.compactor_input.FACTS_LIMIT_TOKENS", 60)
    sizes: list[int] = []
    for lines in (100, 200, 3000):
        for cache in (ALWAYS_PAYS, NEVER_PAYS):
            context = context_of(store, cache=cache)
            await context.add_message(user("Survey."))
            await add_step(context, report("owls", lines))
            await context.get_messages()
            await context.add_message(assistant("Surveyed."))
            await context.get_messages()
            sizes.append(len(json.dumps(await context.save_state())))
    assert max(sizes[:4]) - min(sizes[:4]) < 1500
    assert max(sizes) < 30_000, "an excerpt of 2,000 tokens at most"


async def test_a_state_of_version_1_is_compacted_at_once(store: MemoryStore):
    """An answer compacted results by itself then; the view goes on as it was."""
    context = context_of(store, cache=NEVER_PAYS)
    await read_and_answered(context, "Seen.")
    state = json.loads(json.dumps(await context.save_state()))
    state["transcript"]["version"] = 1
    later = context_of(store, cache=NEVER_PAYS)
    await later.load_state(state)
    assert results(await later.get_messages())[0].startswith("read_file succeeded. [MemoryRef: ")
    assert not later.transcript.state.answered_whole
    state["transcript"]["version"] = 3
    with pytest.raises(ValueError, match="version 3"):
        await later.load_state(state)


async def test_a_compactor_that_raises_leaves_what_the_built_in_ones_keep(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    """The agent goes on; said once."""
    compactors = Compactors()

    @compactors.register("read_file")
    def compact(result: Result, hint: Hint) -> Compacted:
        raise ZeroDivisionError("no lines")

    bad = await read_and_answered(context_of(store, compactors), "Seen.")
    good = await read_and_answered(context_of(store), "Seen.")
    key = re.compile(r"read_file_\w{6}")
    assert key.sub("", bad) == key.sub("", good)
    assert [r.getMessage() for r in caplog.records if r.name == "memory_context"] == [
        "compactor compact is passed over: ZeroDivisionError: no lines"
    ]


class Broken(Compactors):
    """Raises although it promises not to, once a result is answered."""

    def compact(self, result: Result, hint: Hint) -> Compacted:
        """Raise."""
        if hint.facts_limit_tokens:
            raise RuntimeError("broken")
        return super().compact(result, hint)


async def test_when_nothing_can_be_chosen_the_placeholder_stays(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    """And the agent goes on."""
    kept = await read_and_answered(context_of(store, Broken()), "Seen.")
    assert kept.startswith("read_file succeeded. [MemoryRef: read_file_")
    assert "\n" not in kept
    assert "nothing is retained of message 3: broken" in caplog.text


async def test_without_compaction_it_is_the_unbounded_context_within_the_budget(store: MemoryStore):
    """Message for message, however large and however often answered; every large part is stored all the same."""
    context = context_of(store, compaction=CompactionPolicy(enabled=False))
    real = UnboundedChatCompletionContext()
    for i, topic in enumerate(("owls", "bats", "eels", "newts")):
        before = context.transcript.end
        await context.add_message(user(f"Survey {topic}."))
        await add_step(context, report(topic, 500), "ok" * i, report(topic, 20))
        await context.get_messages()
        await context.add_message(assistant(f"Surveyed {topic}."))
        for entry in context.transcript.entries(start=before):
            await real.add_message(entry.message)
        assert await context.get_messages() == await real.get_messages()
    assert context.stats.view_tokens > 15_000
    assert context.stats.offloads == 4
    assert context.stats.saved_tokens == 0
    assert retained(context) == []


async def test_without_compaction_the_budget_still_holds(store: MemoryStore):
    """Then results give way as everything does, and come back by their keys."""
    context = context_of(store, token_budget=5000, compaction=CompactionPolicy(enabled=False))
    await context.add_message(user("Survey."))
    for topic in ("owls", "bats", "eels", "newts"):
        await add_step(context, report(topic, 200))
        view = await context.get_messages()
        assert context.stats.view_tokens <= 5000
    assert report("newts", 200) in text_of(view)
    assert report("owls", 200) not in text_of(view)
    keys = [p.stored.refs[0].key for e in context.transcript.entries() for p in e.measured if p.stored]
    assert await context.retrieve(keys[0]) == report("owls", 200)
