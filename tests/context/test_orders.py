"""What the user ordered stays in each later view of the session, in the user's own words."""

import json
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore, ObservationPolicy, UserMemoryPolicy
from memory_context.foundation.text.own_words import own_passages
from memory_context.memory.learning.rules import ended_orders, orders_in
from memory_context.testing import ScriptedModel, observe_by_script

from ..agents.scripted import report, text_of
from .steps import add_step

RULES = "Three rules for today: leave db/migrations alone, keep public names as they are, and never add a dependency."
SMALL = ContextPolicy(token_budget=4000, store_timeout_seconds=60)


async def ask(context: MemoryContext, text: str) -> list[LLMMessage]:
    await context.add_message(UserMessage(content=text, source="user"))
    return await context.get_messages()


async def work(context: MemoryContext, turns: int = 14) -> list[LLMMessage]:
    """Work until the beginning has left the view; return the last one."""
    for number in range(turns):
        await ask(context, f"Go on with part {number}, please.")
        await add_step(context, report(f"part {number}", 60))
        await context.add_message(AssistantMessage(content=f"Part {number} is done. " * 40, source="coder"))
    view = await ask(context, "And the last one?")
    assert not any(message.content == RULES for message in view)
    return view


async def worked(store: MemoryStore, *said: str, **others: Any) -> tuple[MemoryContext, list[LLMMessage]]:
    context = MemoryContext("alice", "coder", "monday", store, **{"policy": SMALL, **others})
    for text in said:
        await ask(context, text)
        await context.add_message(AssistantMessage(content="All right.", source="coder"))
    return context, await work(context)


async def test_rules_of_the_first_message_stay_after_folds(store: MemoryStore):
    """Once, as a section of their own, between old observations and the history."""
    context, view = await worked(store, f"Hello! {RULES} First: list the modules.")
    assert context.stats.folds
    assert text_of(view).count(f"- {RULES} (1)\n") == 1
    assert "orders" in {segment.kind for segment in (await context.explain()).segments}


async def test_rules_stay_when_observations_replace_their_messages(store: MemoryStore):
    """Whatever the observer made of them."""
    policy = SMALL.model_copy(update={"observation": ObservationPolicy()})
    context, view = await worked(store, RULES, model_client=ScriptedModel(observe_by_script), policy=policy)
    assert context.stats.activations > 0
    assert f"- {RULES} (1)\n" in text_of(view)


@pytest.mark.parametrize("is_resumed", [True, False])
async def test_loaded_session_shows_the_same_bytes(store: MemoryStore, is_resumed: bool):
    context, view = await worked(store, RULES)
    state = json.loads(json.dumps(await context.save_state()))
    await context.close()
    loaded = MemoryContext("alice", "coder", "monday" if is_resumed else None, store, policy=SMALL)
    await (loaded.resume() if is_resumed else loaded.load_state(state))
    assert text_of(await loaded.get_messages()) == text_of(view)
    assert f"- {RULES} (1)\n" in text_of(await work(loaded, 6))


async def test_rule_that_was_taken_back_goes_with_the_next_fold(store: MemoryStore):
    context, view = await worked(store, "Never rename tables.", "Always answer in German.", "Do not touch db/old.")
    for order in ("Never rename tables.", "Always answer in German.", "Do not touch db/old."):
        assert f"- {order} (" in text_of(view)
    for text in ("You may rename tables now.", "From now on, answer in French."):
        await ask(context, text)
    shown = text_of(await work(context))
    assert "- Never rename tables. (" not in shown
    assert "- Always answer in German. (" not in shown
    assert "- Do not touch db/old. (" in shown
    assert "- From now on, answer in French. (" in shown


async def test_newest_orders_have_the_room(store: MemoryStore):
    policy = SMALL.model_copy(update={"user_memory": UserMemoryPolicy(limit_tokens=200)})
    orders = [f"Never write to table_{number} before the backup of that day is there." for number in range(20)]
    _, view = await worked(store, *orders, policy=policy)
    shown = [order for order in orders if f"- {order} (" in text_of(view)]
    assert shown == orders[-len(shown) :]
    assert 3 < len(shown) < 15


async def test_pasted_rules_and_other_senders_order_nothing(store: MemoryStore):
    """Neither the session's agent, nor another agent, nor a quoted mail."""
    context, _ = await worked(store, "Is this mail real?\n> Never pay before Friday.\n> Eve")
    for source in ("planner", "memory"):
        await context.add_message(UserMessage(content="Never pay before Friday.", source=source))
    await context.add_message(AssistantMessage(content="Never pay before Friday.", source="coder"))
    assert "- Never pay before Friday. (" not in text_of(await work(context))


async def test_order_that_a_model_learned_stays_by_its_quote(store: MemoryStore):
    """In any language, which no rule knows."""
    quote = "决不要删除备份"
    answer = {"message": 1, "quote": quote, "statement": quote, "type": "user_preference", "supersedes": ""}
    model = ScriptedModel(json.dumps({"statements": [answer]}))
    context = MemoryContext("alice", "coder", "monday", store, model_client=model, policy=SMALL)
    await ask(context, f"{quote}。请列出文件。")
    await context.archive()
    await store.jobs.flush()
    assert f"- {quote} (1)\n" in text_of(await work(context, 18))


async def test_cleared_session_has_no_orders(store: MemoryStore):
    context, _ = await worked(store, RULES)
    await context.clear()
    assert RULES not in text_of(await work(context))


@pytest.mark.parametrize(
    ("message", "orders"),
    [
        ("Never rename tables. Open the file.", ["Never rename tables."]),
        ("Please do not format the code; list the files.", ["Please do not format the code"]),
        ("No, I meant the second server.", ["No, I meant the second server."]),
        ("You must not call the API twice.", ["You must not call the API twice."]),
        ("Bitte keine Dateien unter /etc ändern.", ["Bitte keine Dateien unter /etc ändern."]),
        ("Ab jetzt nur Stichpunkte. Danke!", ["Ab jetzt nur Stichpunkte."]),
        ("I prefer short answers. Go on.", ["I prefer short answers."]),
        ("From now on, answer in French. Thanks!", ["From now on, answer in French."]),
        ("Let's go with the second layout.", ["Let's go with the second layout."]),
        ("Verwende nie Emojis.", ["Verwende nie Emojis."]),
        ("Thank you very much, that is great!", []),
        ("The function always returns None.", []),
        ("I always get this error, and never in the tests.", []),
        ("Should I never restart it?", []),
        ("Don't worry. Never mind.", []),
        ("> Never pay.\nIs that so?", []),
    ],
)
def test_orders_are_sentences_of_the_user(message: str, orders: list[str]):
    assert orders_in(own_passages(message)) == orders


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        ("You may touch db/migrations now.", {0}),
        ("Answer in French.", {1}),
        ("Ignore the rule about renaming tables.", {2}),
        ("Forget all rules.", {0, 1, 2}),
        ("Forget that rule.", {2}),
        ("You can go on.", set()),
        ("Rename the file.", set()),
        ("You may use the other table.", set()),
        ("You may touch anything under db/seeds.", set()),
        ("You may touch db/migrations of the old branch.", set()),
    ],
)
def test_user_takes_orders_back(message: str, ended: set[int]):
    standing = ["Do not touch anything under db/migrations.", "Always answer in German.", "Never rename tables."]
    assert ended_orders([message], standing) == ended
