"""forget_memory: a model has something erased only when the user agrees, and only what its agent may forget."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryStore
from memory_context.foundation import errors
from memory_context.recall.tools.forget import Confirm, ForgetMemoryTool, ForgetProposal
from memory_context.recall.tools.prompt_head import tool_tokens

from .scripted import calls, model

ON_REQUEST: Any = ["forget_memory"]


def code_in(text: str) -> str:
    """Return the code that an answer gives."""
    found = re.search(r"confirmation='([A-Z2-7]{8})'", text)
    assert found, text
    return found[1]


async def run(context: MemoryContext, task: str, *wanted: dict[str, Any], confirm: Confirm | None = None) -> list[str]:
    """Run an agent that calls forget_memory so, once a step; return what the tool answered."""
    client = model(*(calls(("forget_memory", arguments)) for arguments in wanted), "Well.")
    tools: Any = context.tools(also=ON_REQUEST, confirm=confirm)
    agent = AssistantAgent("coder", client, tools=tools, model_context=context, max_tool_iterations=9)
    result = await agent.run(task=task)
    events = [one for one in result.messages if isinstance(one, ToolCallExecutionEvent)]
    return [answer.content for event in events for answer in event.content]


async def ask(context: MemoryContext, confirm: Confirm | None = None, **arguments: Any) -> str:
    tool = next(one for one in context.tools(also=ON_REQUEST, confirm=confirm) if one.name == "forget_memory")
    return await tool.run_json(arguments, CancellationToken())


class Person:
    """Answers what it is asked, and remembers it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[ForgetProposal] = []

    async def __call__(self, proposal: ForgetProposal) -> bool:
        self.asked.append(proposal)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer


async def left(store: MemoryStore, keys: Sequence[str], user: str = "alice") -> set[str]:
    return set(await store.user_stats.keys_of_contents(user, keys))


async def test_tool_is_offered_only_on_request_and_counted_in_the_bill(store: MemoryStore):
    """Named by the application; what its schema takes is in the bill of tools()."""
    plain = MemoryContext("alice", "coder", "s1", store)
    names = [tool.name for tool in plain.tools()]
    assert "forget_memory" not in names
    assert len(plain.workbench()._tools) == 6  # pyright: ignore[reportPrivateUsage]
    context = MemoryContext("alice", "coder", "s2", store)
    tools = context.tools(also=ON_REQUEST)
    assert [tool.name for tool in tools] == [*names, "forget_memory"]
    await run(context, "Hello.")
    assert context.stats.head_tokens == tool_tokens([tool.schema for tool in tools], context.token_counter)
    assert tool_tokens([tools[-1].schema], context.token_counter) <= 90
    for also, confirm in (("forget_memory", None), (["forget"], None), ([], Person())):
        with pytest.raises(ValueError, match="forget_memory"):
            context.workbench(also=also, confirm=confirm)  # type: ignore[arg-type]
    await context.close()


async def test_workbench_offers_it_late_and_component_data_carries_it_without_the_callback(store: MemoryStore):
    """A loaded tool asks in two calls."""
    context = MemoryContext("alice", "coder", "s", store)
    bench = context.workbench(also=ON_REQUEST, confirm=Person(True))
    assert await bench.list_tools() == []
    key = await context.store("a boat", "a note")
    await context.get_messages()
    assert "forget_memory" in [tool["name"] for tool in await bench.list_tools()]
    loaded = type(bench).load_component(json.loads(bench.dump_component().model_dump_json()))
    (tool,) = [one for one in loaded._tools if isinstance(one, ForgetMemoryTool)]  # pyright: ignore[reportPrivateUsage]
    answer = await tool.run_json({"memory_keys": [key]}, CancellationToken())
    assert code_in(answer)
    assert await left(store, [key]) == {key}


async def test_person_who_is_asked_decides(store: MemoryStore):
    """No and a failing callback forget nothing; yes forgets all items of the content, and the trail says why."""
    context = MemoryContext("alice", "coder", "s", store)
    key = await context.store("my address is 5 Elm Street", "address")
    copy = (await AgentMemory(store, "alice", "other", "earlier").store("my address is 5 Elm Street")).key
    kept = await context.store("a boat", "a note")
    person = Person(False, RuntimeError("the page is closed"), "yes", True)
    wanted = {"memory_keys": [key], "confirmation": "AAAAAAAA"}
    answers = await run(context, "Forget my address.", wanted, wanted, wanted, confirm=person)
    assert ["said no" in answers[0], "could not be asked" in answers[1], "said no" in answers[2]] == [True] * 3
    assert await left(store, [key, kept]) == {key, copy, kept}
    (answer,) = await run(context, "Do it.", {"memory_keys": [key]}, confirm=person)
    assert answer.startswith(f"Forgotten for good: {key}, {copy}.")
    assert await left(store, [key, copy, kept]) == {kept}
    proposal = person.asked[-1]
    assert (proposal.user_id, proposal.agent_id, proposal.session_id) == ("alice", "coder", "s")
    assert next((one.memory_key, one.description, one.content_bytes) for one in proposal.items) == (key, "address", 26)
    assert f"- address ({key}, custom, " in str(proposal)
    assert "26 bytes" in str(proposal)
    assert "Elm" not in answer
    events = [one for one in await context.agent_memory.audit() if one.kind == "forgotten" and one.detail]
    assert [(one.agent_id, one.keys, one.detail) for one in events] == [
        ("coder", (key, copy), "forget_memory: the user was asked and agreed")
    ]
    await context.close()


async def test_items_that_change_while_the_person_is_asked_stay(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store)
    key = await context.store("a boat", "a note")
    other = AgentMemory(store, "alice", "other", "t")

    async def store_it_again() -> bool:
        await other.store("a boat")
        return True

    assert "changed while" in await ask(context, Person(store_it_again), memory_keys=[key])
    assert key in await left(store, [key])


async def test_without_a_callback_the_user_has_to_speak_between_two_calls(store: MemoryStore):
    """The first call lists; its code forgets nothing in the same turn, and exactly these items in the next."""
    context = MemoryContext("alice", "coder", "s", store)
    key, kept = await context.store("my address", "address"), await context.store("a boat", "a note")
    (listed,) = await run(context, "Forget my address.", {"memory_keys": [key]})
    assert f"- address ({key}, custom, " in listed
    confirmed = {"memory_keys": [key], "confirmation": code_in(listed)}
    answers = await run(context, "What is it?", {"memory_keys": [key]}, {"memory_keys": [key]})
    again = {"memory_keys": [key], "confirmation": code_in(answers[0])}
    assert again != confirmed
    assert "asked" not in answers[1]
    assert "stands above" in answers[1]
    (early,) = await run(context, "And that?", {"memory_keys": [key, kept], "confirmation": code_in(listed)})
    assert "not for these items" in early
    same_turn = await run(context, "Hm.", {"memory_keys": [kept]})
    same_turn += [await ask(context, memory_keys=[kept], confirmation=code_in(same_turn[0]))]
    assert "has not answered yet" in same_turn[1]
    assert await left(store, [key, kept]) == {key, kept}
    (answer,) = await run(context, "Yes, erase it.", again)
    assert answer.startswith(f"Forgotten for good: {key}.")
    assert await left(store, [key, kept]) == {kept}
    (gone,) = await run(context, "Once more.", again)
    assert "was forgotten on" in gone
    await context.close()


async def test_code_holds_for_the_items_as_they_were_and_for_nobody_else(store: MemoryStore):
    """Not when one was stored again or has a new twin, not in another session, and no word of another agent counts."""
    context = MemoryContext("alice", "coder", "s", store)
    key = await context.store("my address", "address")
    for number, change in enumerate(
        (
            lambda: context.store("my address", "address"),
            lambda: AgentMemory(store, "alice", "other", "t").store("my address"),
        )
    ):
        (listed,) = await run(context, f"Forget it, {number}.", {"memory_keys": [key]})
        await change()
        (answer,) = await run(context, "Yes.", {"memory_keys": [key], "confirmation": code_in(listed)})
        assert answer.startswith("That code is not for these items as they are now.")
    elsewhere = MemoryContext("alice", "coder", "s2", store)
    await run(elsewhere, "Hello.")
    for code in (code_in(answer), "", "yes", "\ud83d", "AAAAAAAA"):
        assert "Nothing is forgotten yet" in await ask(elsewhere, memory_keys=[key], confirmation=code)
    await context.add_message(UserMessage(content="Yes, do it!", source="critic"))
    refused = await ask(context, memory_keys=[key], confirmation=code_in(answer))
    assert "has not answered yet" in refused
    assert key in await left(store, [key])
    for each in (context, elsewhere):
        await each.close()


async def test_agent_forgets_only_what_it_may_write(store: MemoryStore):
    """A lead's items are not a read-only helper's to forget, nor another user's anybody's; unknown keys are named."""
    lead = MemoryContext("alice", "lead", "s", store)
    shared = await lead.store("the plan", "plan")
    helper = lead.for_subagent("helper", "read_only")
    own = await helper.store("draft one", "draft")
    copy = await helper.store("the plan", "my copy")
    bob = await MemoryContext("bob", "coder", "b", store).store("the plan", "bob's")
    person = Person(True, True, True)
    assert "another agent's" in await ask(helper, person, memory_keys=[shared])
    assert "private to" in await ask(lead, person, memory_keys=[own])
    for context in (lead, helper):
        assert "no item" in await ask(context, person, memory_keys=[bob])
    assert f"did you mean {shared!r}" in await ask(lead, person, memory_keys=[shared[:-1] + "z", own])
    assert "search_memory finds the keys" in await ask(lead, person, memory_keys="the plan")
    assert "Nothing is forgotten yet" in await ask(lead, memory_keys=f"[MemoryRef: {shared} - x - 1 tokens]")
    for keys in ([], [f"k{n}" for n in range(21)], [""], ["\ud83d"], [shared, "nothing_here"]):
        assert "Nothing was forgotten" in await ask(lead, person, memory_keys=keys) or not 1 <= len(keys) <= 20
    assert person.asked == []
    answer = await ask(helper, person, memory_keys=[own, copy])
    assert f"Forgotten for good: {own}, {copy}. Items of other agents with the same content stay: 1." in answer
    assert person.asked[0].copies_left == 1
    assert await left(store, [shared, own, copy]) == {shared}
    later = MemoryContext("alice", "lead", "later", store)
    assert f"Forgotten for good: {shared}." in await ask(later, person, memory_keys=[shared])
    assert await left(store, [bob], "bob") == {bob}
    assert replace(person.asked[1], items=()) == ForgetProposal("alice", "lead", "later", ())


async def test_tool_says_so_when_the_store_is_away(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Before anybody is asked; and when it went away at the last moment, that the outcome is not known."""
    context = MemoryContext("alice", "coder", "s", store)
    key = await context.store("a boat", "a note")

    async def away(*_: object, **__: object) -> Any:
        raise errors.StoreUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("memory_context.store.database.Database.write", away)
        assert "not known whether" in await ask(context, Person(True), memory_keys=[key])
        patch.setattr("memory_context.store.database.Database.read", away)
        assert "Nothing was forgotten: the memory cannot" in await ask(context, Person(), memory_keys=[key])
    assert await left(store, [key]) == {key}
