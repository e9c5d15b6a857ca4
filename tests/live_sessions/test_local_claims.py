"""Claims within one process: first come first served among its caches."""

import asyncio

import pytest

from memory_context.foundation.errors import SessionBusyError
from memory_context.sessions.live.claims import LocalClaims
from tests.support.waiting import soon

from .fakes import key_of, settled

KEY = key_of("s")


async def test_the_one_who_waited_longest_is_next_and_hears_of_the_others() -> None:
    """Who has it learns that it is wanted still, so that nobody waits in vain."""
    first = LocalClaims()
    second, third = LocalClaims(beside=first), LocalClaims(beside=first)
    asked: list[str] = []
    for name, claims in (("first", first), ("second", second), ("third", third)):
        claims.watch(lambda _, name=name: asked.append(name), lambda _: None)
    await first.claim(KEY, 0)
    waiting = [asyncio.create_task(claims.claim(KEY, 5)) for claims in (second, third)]
    await settled()
    assert asked == ["first", "first"]
    await first.release(KEY)
    await waiting[0]
    await settled()
    assert asked == ["first", "first", "second"]
    await second.release(KEY)
    await waiting[1]
    with pytest.raises(SessionBusyError):
        await first.claim(KEY, 0)


async def test_who_is_cancelled_as_the_claim_comes_passes_it_on() -> None:
    first = LocalClaims()
    second, third = LocalClaims(beside=first), LocalClaims(beside=first)
    await first.claim(KEY, 0)
    waiting = [asyncio.create_task(claims.claim(KEY, 5)) for claims in (second, third)]
    await settled()
    await first.release(KEY)
    waiting[0].cancel()
    await soon(waiting[1])
    assert waiting[0].cancelled()


async def test_a_claim_is_not_taken_twice_by_the_same_and_ends_with_it() -> None:
    claims = LocalClaims()
    await claims.claim(KEY, 0)
    with pytest.raises(RuntimeError, match="claimed here already"):
        await claims.claim(KEY, 0)
    await LocalClaims(beside=claims).release(KEY)  # which is not its
    other = LocalClaims(beside=claims)
    with pytest.raises(SessionBusyError):
        await other.claim(KEY, 0)
    await claims.close()
    await other.claim(KEY, 0)
