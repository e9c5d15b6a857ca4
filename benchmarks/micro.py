"""What the operations of a context cost, as ratios to the work they cannot avoid, within one run.

    python -m benchmarks.micro [--rounds N] [--json FILE]

Machines are noisy, so nothing here is an absolute time to hold on to: each measurement runs A and B by turns on fresh
content, after a warm-up, and reports both medians and their ratio.
"""

import argparse
import asyncio
import difflib
import doctest
import inspect
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from benchmarks.comparing import WARM_UP, Measured, compare, print_measured
from benchmarks.scratch import RawTable, UntouchedStore, scratch_store
from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.foundation.tokens import default_token_counter

__all__ = ["main", "measure", "one_call", "one_result"]

LARGE = 40_000
SMALL = 1_000
STATE_STEPS = 30
SESSION_STEPS = 100
MOST_GROWTH_RATIO = 1.25  # a longer result keeps a few more facts, up to their limit

# What agents mostly read is source code, so the standard library's own is what is measured with.
_SOURCE = "".join(inspect.getsource(module) for module in (argparse, asyncio.base_events, difflib, doctest))
_count = default_token_counter().count


async def measure(rounds: int) -> list[Measured]:
    """Run all measurements in a scratch database."""
    async with scratch_store() as (store, url), RawTable.open(url) as table:
        return [
            await add_large(store, table, rounds),
            await add_large(store, table, rounds, other="INSERT alone"),
            *await get_messages(store, rounds),
            *await add_small(rounds),
            *await transactions(store),
            *await state_size(store),
        ]


# --- the measurements --------------------------------------------------------------------------------------------


async def add_large(store: MemoryStore, table: RawTable, rounds: int, other: str = "INSERT + token count") -> Measured:
    """A tool result of 40 kB comes in: against storing the same text by hand and counting its tokens once."""
    context = _context(store)
    await context.add_message(UserMessage(content="Look at the logs.", source="user"))

    async def add() -> float:
        await context.get_messages()
        await context.add_message(one_call("tail"))
        result = one_result("tail", text(LARGE))
        began = time.perf_counter()
        await context.add_message(result)
        return time.perf_counter() - began

    async def by_hand() -> float:
        row = table.row(text(LARGE))
        began = time.perf_counter()
        await table.insert(row)
        if other != "INSERT alone":
            _count(str(row["content"]))
        return time.perf_counter() - began

    target = 1.5 if other != "INSERT alone" else None
    measured = await compare(f"add_message of a 40 kB result / {other}", add, by_hand, rounds, target)
    assert context.stats.offloads == WARM_UP + rounds
    return measured


async def get_messages(store: MemoryStore, rounds: int) -> list[Measured]:
    """The view of 300 messages: against counting the tokens of 40 kB once."""

    async def count() -> float:
        content = text(LARGE)
        began = time.perf_counter()
        _count(content)
        return time.perf_counter() - began

    async def after(name: str, *added: Callable[[], LLMMessage]) -> Measured:
        """Measure it right after these were added; the median round has 300 messages."""
        context = await _long_session(store, SESSION_STEPS - (WARM_UP + rounds) * len(added) // 6)

        async def get() -> float:
            for message in added:
                await context.add_message(message())
            began = time.perf_counter()
            await context.get_messages()
            return time.perf_counter() - began

        return await compare(f"get_messages of 300 messages, {name} / token count of 40 kB", get, count, rounds, 1.0)

    def result_of(length: int) -> Callable[[], LLMMessage]:
        return lambda: one_result("tail", text(length))

    return [
        await after("unchanged"),
        await after("one text later", lambda: AssistantMessage(content=text(300), source="assistant")),
        await after("a call and 4 kB later", lambda: one_call("tail"), result_of(LARGE // 10)),
        await after("a call and 40 kB later", lambda: one_call("tail"), result_of(LARGE)),
    ]


async def add_small(rounds: int) -> list[Measured]:
    """Messages under the threshold: no access to the database, and about the cost of counting their tokens."""
    store = UntouchedStore()
    context = _context(store)
    names = iter(range(1_000_000))

    async def add() -> float:
        content = text(SMALL)
        await context.add_message(one_call(f"look_{next(names)}"))
        began = time.perf_counter()
        await context.add_message(one_result("look", content))
        return time.perf_counter() - began

    async def count() -> float:
        content = text(SMALL)
        began = time.perf_counter()
        _count(content)
        return time.perf_counter() - began

    compared = await compare("add_message of 1 kB / token count of the same", add, count, rounds)
    messages = len(context.transcript.entries())
    accesses = Measured(
        "database accesses of messages under the threshold",
        store.accesses,
        "= 0",
        store.accesses == 0,
        f"{messages} messages",
    )
    return [compared, accesses]


async def transactions(store: MemoryStore) -> list[Measured]:
    """Write transactions of messages with many large parts and with none."""
    context = _context(store)
    calls = [FunctionCall(id=f"c{i}", name="read", arguments=json.dumps({"path": f"f{i}"})) for i in range(50)]
    results = [
        FunctionExecutionResult(content=text(8_000), name="read", call_id=call.id, is_error=False) for call in calls
    ]
    arguments = json.dumps({"path": "notes.md", "content": text(9_000), "backup": text(9_000)})
    write = AssistantMessage(
        content=[FunctionCall(id="w", name="write", arguments=arguments)], thought=text(9_000), source="assistant"
    )
    large = [
        FunctionExecutionResultMessage(content=results),
        write,
        UserMessage(content=text(12_000), source="user"),
    ]
    small = [
        UserMessage(content=text(200), source="user"),
        AssistantMessage(content=calls, source="assistant"),
        FunctionExecutionResultMessage(
            content=[FunctionExecutionResult(content="ok", name="write", call_id="w", is_error=False)]
        ),
    ]
    counts: list[int] = []
    for message in (small[0], small[1], large[0], large[1], small[2], large[2]):
        before = store.items.write_transactions
        await context.add_message(message)
        counts.append(store.items.write_transactions - before)
    with_offloads, without = [counts[2], counts[3], counts[5]], [counts[0], counts[1], counts[4]]
    return [
        Measured(
            "write transactions of a message with offloads, at most",
            max(with_offloads),
            "= 1",
            set(with_offloads) == {1},
            f"50 results, arguments and thought, user text: {with_offloads}",
        ),
        Measured("write transactions of other messages, at most", max(without), "= 0", not any(without), f"{without}"),
    ]


async def state_size(store: MemoryStore) -> list[Measured]:
    """What `save_state` writes for one more step: it must not depend on how long the outputs are."""
    growth: list[float] = []
    for length in (LARGE // 10, LARGE):
        context = _context(store)
        await context.add_message(UserMessage(content="Look at the logs.", source="user"))
        sizes: list[int] = []
        for _ in range(2):
            for _ in range(STATE_STEPS):
                await context.get_messages()
                await context.add_message(one_call("tail"))
                await context.add_message(one_result("tail", text(length)))
            sizes.append(len(json.dumps(await context.save_state())))
        growth.append((sizes[1] - sizes[0]) / STATE_STEPS)
    ratio = growth[1] / growth[0]
    detail = f"{growth[1]:,.0f} / {growth[0]:,.0f} bytes a step"
    return [
        Measured(
            "growth of save_state, outputs of 40 kB / of 4 kB",
            ratio,
            f"<= {MOST_GROWTH_RATIO}",
            ratio <= MOST_GROWTH_RATIO,
            detail,
        ),
        Measured("growth of save_state / content, outputs of 40 kB", growth[1] / LARGE),
    ]


# --- what is played ----------------------------------------------------------------------------------------------

_random = random.Random(20)


def text(length: int) -> str:
    """Return fresh source code: never the same twice, so that neither store nor caches know it."""
    start = _random.randrange(len(_SOURCE) - length)
    return f"{_random.random()}\n{_SOURCE[start:]}"[:length]


def _context(store: MemoryStore) -> MemoryContext:
    # on a busy machine too, what is stored is stored with its message, so that it can be counted
    policy = ContextPolicy(store_timeout_seconds=60, user_memory=UserMemoryPolicy(enabled=False))
    return MemoryContext(user_id="micro", memory_store=store, policy=policy)


def one_call(name: str) -> AssistantMessage:
    """Return a message with one call of a tool, never the same twice."""
    call = FunctionCall(id="call", name=name, arguments=json.dumps({"lines": _random.randrange(10**6)}))
    return AssistantMessage(content=[call], thought="One moment.", source="assistant")


def one_result(name: str, content: str) -> FunctionExecutionResultMessage:
    """Return the message with the result of that call."""
    result = FunctionExecutionResult(content=content, name=name, call_id="call", is_error=False)
    return FunctionExecutionResultMessage(content=[result])


async def _long_session(store: MemoryStore, steps: int) -> MemoryContext:
    """Return a session of so many times three messages: a text, a call and a result that was stored."""
    context = _context(store)
    for _ in range(steps):
        await context.add_message(UserMessage(content=text(200), source="user"))
        await context.get_messages()
        await context.add_message(one_call("tail"))
        await context.add_message(one_result("tail", text(LARGE // 10)))
    return context


# --- the terminal ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure(given.rounds))
    print_measured(measured, "operations of a context")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
