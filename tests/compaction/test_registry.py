"""Which compactor takes a result, and that a bad one never stands in the agent's way."""

import asyncio
import logging
import threading
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import FunctionExecutionResultMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.compactors import registry
from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.excerpt import Passage
from memory_context.foundation.compactors.registry import Compactors

from ..agents.scripted import calls, model, report, seen
from ..context.steps import ALWAYS_PAYS, a_turn_of_the_loop, add_step

LONG = "\n".join(f"row {i}: some words of it" for i in range(2000))


def says(what: str):
    """Make a compactor whose facts are a word."""

    def compact(result: Result, hint: Hint) -> Compacted:
        return Compacted("Done.", "a result", what)

    return compact


class Object:
    """A compactor that is an object."""

    def compact(self, result: Result, hint: Hint) -> Compacted:
        """Keep the tool's name."""
        return Compacted("Done.", "a result", f"an object saw {result.source}")


def facts(compactors: Compactors, source: str = "query_orders") -> str:
    return compactors.compact(Result("some words", source), Hint()).facts


@pytest.mark.parametrize("tool", ["query_orders", "query_*", "*", lambda result: result.content == "some words"])
def test_compactor_is_registered_by_name_pattern_or_function(tool: Any):
    """And takes no other results."""
    compactors = Compactors()
    compactors.register(tool, says("mine"))
    assert facts(compactors) == "mine"
    others = compactors.compact(Result("other words", "Query_orders"), Hint()).facts
    assert others == ("mine" if tool == "*" else "")


def test_compactor_is_a_function_an_object_or_decorated():
    """The decorator gives back what it was given."""
    compactors = Compactors()
    compactors.register("one", Object())

    @compactors.register("two")
    def compact_two(result: Result, hint: Hint) -> Compacted:
        return Compacted("Done.", "a result", "two")

    assert facts(compactors, "one") == "an object saw one"
    assert facts(compactors, "two") == "two"
    assert compact_two(Result("", "two"), Hint()).facts == "two"
    with pytest.raises(TypeError, match="'nonsense' is no compactor"):
        compactors.register("three", "nonsense")  # pyright: ignore[reportArgumentType]


def test_compactor_registered_last_is_asked_first():
    """A special case after the general one."""
    compactors = Compactors()
    compactors.register("*", says("any"))
    compactors.register("query_*", says("query"))
    assert (facts(compactors), facts(compactors, "other")) == ("query", "any")


def raising(result: Result, hint: Hint) -> Compacted:
    raise KeyError("no such field")


def overrunning(result: Result, hint: Hint) -> Compacted:
    return Compacted("Done.", "a result", "word " * (hint.facts_limit_tokens + 20))


def overrunning_excerpt(result: Result, hint: Hint) -> Compacted:
    return Compacted("Done.", "a result", "", [Passage(0, len(result.content))])


def out_of_order(result: Result, hint: Hint) -> Compacted:
    return Compacted("Done.", "a result", "", [Passage(20, 30), Passage(0, 10)])


def outside(result: Result, hint: Hint) -> Compacted:
    return Compacted("Done.", "a result", "", [Passage(0, len(result.content) + 1)])


def junk(result: Result, hint: Hint) -> Any:
    return {"facts": "one"}


def junk_inside(result: Result, hint: Hint) -> Any:
    return Compacted("Done.", "a result", 7)  # pyright: ignore[reportArgumentType]


def junk_passages(result: Result, hint: Hint) -> Any:
    return Compacted("Done.", "a result", "", ["lines 1-2"])  # pyright: ignore[reportArgumentType]


def long_status(result: Result, hint: Hint) -> Compacted:
    return Compacted("Done. " * 100, "a result", "")


BAD = [raising, overrunning, overrunning_excerpt, out_of_order, outside, junk, junk_inside, junk_passages, long_status]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.thorough
def test_bad_compactor_is_skipped_and_logged_once(bad: Any, caplog: pytest.LogCaptureFixture):
    """What the built-in ones make of the result comes instead."""
    compactors = Compactors()
    compactors.register("survey", bad)
    result = Result(LONG, "survey", token_count=Hint().counter.count(LONG))
    hint = Hint(task="row 7", excerpt_limit_tokens=500)
    with caplog.at_level(logging.WARNING, logger="memory_context"):
        for _ in range(3):
            assert compactors.compact(result, hint) == Compactors().compact(result, hint)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].startswith(f"compactor {bad.__name__} is passed over: ")


def test_compactor_whose_condition_raises_is_skipped(caplog: pytest.LogCaptureFixture):
    """Like a compactor that raises."""
    compactors = Compactors()
    compactors.register(lambda result: result.nonsense, says("mine"))  # pyright: ignore
    assert facts(compactors) != "mine"
    assert "is passed over: AttributeError" in caplog.text


def test_generic_rule_chooses_passages_for_a_compactor_without():
    """`excerpt=None`; without a wish for an excerpt there is none, whatever a compactor gives."""
    compactors = Compactors()
    compactors.register("survey", says("mine"))
    result = Result(LONG, "survey")
    compacted = compactors.compact(result, Hint(excerpt_limit_tokens=500))
    assert compacted.facts == "mine"
    assert compacted.excerpt == Compactors().compact(result, Hint(excerpt_limit_tokens=500)).excerpt
    assert compacted.excerpt
    compactors.register("survey", lambda result, hint: Compacted("Done.", "a result", "", ()))
    assert compactors.compact(result, Hint(excerpt_limit_tokens=0)).excerpt is None


def test_analyzer_that_raises_is_skipped(caplog: pytest.LogCaptureFixture):
    """The generic rule at last."""

    def read_badly(result: Result) -> None:
        raise RecursionError("too deep")

    compacted = Compactors([read_badly]).compact(Result("a\nb", "survey"), Hint())
    assert compacted.description == "output of survey, 2 lines"
    assert "compactor read_badly is passed over: RecursionError: too deep" in caplog.text


def hanging(compactors: Compactors) -> threading.Event:
    """Register a compactor that does not come back until the event is set."""
    release = threading.Event()

    @compactors.register("*")
    def hangs(result: Result, hint: Hint) -> Compacted:
        release.wait(60)
        return Compacted("Late.", "late", "late")

    return release


def test_hanging_compactor_is_skipped_and_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(registry, "_SECONDS", 0.5)
    compactors = Compactors()
    compactors.register("*", says("of the one before"))
    release = hanging(compactors)
    try:
        with caplog.at_level(logging.WARNING, "memory_context"):
            assert [facts(compactors), facts(compactors)] == ["of the one before"] * 2
    finally:
        release.set()
    assert [record.getMessage().count("not asked again") for record in caplog.records] == [1]


async def test_context_goes_on_while_a_compactor_hangs(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """The message is taken in, and other tasks run meanwhile."""
    monkeypatch.setattr(registry, "_SECONDS", 0.5)
    compactors = Compactors()
    release = hanging(compactors)
    policy = ContextPolicy(store_timeout_seconds=30)
    context = MemoryContext("alice", "coder", None, store, policy=policy, compactors=compactors)
    adding = asyncio.create_task(add_step(context, report("owls")))
    turns = 0
    try:
        while not adding.done():
            await a_turn_of_the_loop()
            turns += 1
    finally:
        release.set()
    await adding
    assert turns > 100, "the event loop was free"
    (placeholder,) = [part for entry in context.transcript.entries() for part in entry.measured if part.stored]
    assert placeholder.is_result


async def test_agent_sees_the_facts_of_its_own_compactor(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Whole at first, then what the compactor made of it, with a working placeholder; other tools as usual."""
    monkeypatch.setattr(ContextPolicy, "names_first_view", lambda self, agent_has_tools: False)
    compactors = Compactors()

    @compactors.register("survey")
    def compact_survey(result: Result, hint: Hint) -> Compacted:
        lines = result.content.splitlines()
        return Compacted("Surveyed.", f"survey with {len(lines)} findings", f"Best: {lines[-1]}")

    def survey(topic: str) -> str:
        """Survey a topic at length."""
        return report(topic)

    def measure(topic: str) -> str:
        """Measure a topic at length."""
        return report(topic)

    client = model(
        calls(("survey", {"topic": "owls"}), ("measure", {"topic": "bats"})), calls(("survey", {"topic": "eels"})), "."
    )
    context = MemoryContext(
        "alice",
        "coder",
        None,
        store,
        policy=ContextPolicy(cache=ALWAYS_PAYS),
        compactors=compactors,
    )
    agent = AssistantAgent(
        "coder",
        client,
        tools=[survey, measure],
        model_context=context,
        max_tool_iterations=5,
        reflect_on_tool_use=False,
    )
    await agent.run(task="Survey owls.")

    def results(call: int) -> list[str]:
        messages = [m for m in seen(client, call) if isinstance(m, FunctionExecutionResultMessage)]
        return [result.content for message in messages for result in message.content]

    assert results(1) == [report("owls"), report("bats")]
    key = next(part.stored.refs[0].key for part in context.transcript[2].measured if part.stored)
    placeholder = (
        f"[MemoryRef: {key} - survey with 300 findings - {context.token_counter.count(report('owls'))} tokens]"
    )
    best = report("owls").splitlines()[-1]
    assert results(2)[0] == f"Surveyed. {placeholder}\nQuoted from it:\n> Best: {best}"
    assert results(2)[1].startswith("measure succeeded. [MemoryRef: measure_")
    assert await context.retrieve(key) == report("owls")
