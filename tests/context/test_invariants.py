"""The invariants, as properties of random histories on a real Postgres."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore

from .histories import (
    Life,
    any_compactors,
    any_policy,
    histories,
    long_history,
    moody,
    policies,
    sized,
    varied_constants,
)


@given(history=histories, policy=policies, seed=st.integers(0, 999))
async def test_every_view_of_every_history_keeps_the_rules(
    store: MemoryStore, history, policy: ContextPolicy, seed: int
):
    """Pairing, budget, stable head, whole task, committed references, purity, saved and loaded at any point."""
    light = moody(len(history)) if len(history) % 2 else None
    compactors = any_compactors(len(history))
    with varied_constants(seed):
        context = MemoryContext("alice", "coder", None, store, model_client=light, policy=policy, compactors=compactors)
        life = Life(context, light=light, compactors=compactors)
        await life.live(history)
        await life.check_nothing_is_lost()


async def test_fold_leaves_the_known_user_in_the_head(store: MemoryStore):
    """What is known of the user stands before the fold, so only the history is counted as read anew."""
    for fact in ("Lives in Porto, in the old town.", "Takes the train to work, never the car."):
        await AgentMemory(store, "alice").store(fact, type="user_fact")
    policy = ContextPolicy(token_budget=2000, store_timeout_seconds=20)
    life = Life(MemoryContext("alice", "coder", None, store, policy=policy))
    said = [(("user", sized(0, 30, number), "user"), ("answer", "I see it.", None)) for number in range(7)]
    await life.live([*chain.from_iterable(said), ("look",)])
    assert life.context.transcript.state.fold is not None
    assert life.rendered.tokens_beside > 16


@pytest.mark.parametrize("seed", [*range(settings().max_examples // 16), 26])
async def test_every_view_of_a_long_life_keeps_the_rules(store: MemoryStore, seed: int):
    """The same, over sixty events of real work, in which steps fold and results shrink."""
    light = moody(seed) if seed % 2 else None
    compactors = any_compactors(seed)
    policy = any_policy(seed)
    with varied_constants(seed):
        context = MemoryContext("alice", "coder", None, store, model_client=light, policy=policy, compactors=compactors)
        life = Life(context, light=light, compactors=compactors)
        await life.live(long_history(seed))
        await life.check_nothing_is_lost()
