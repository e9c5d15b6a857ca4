"""What choosing what survives of a result costs, and how long that holds the event loop.

    python -m benchmarks.compacting [--rounds N] [--json FILE]

Choosing is compared, in one run and by turns, with counting the tokens of the same text once, which nobody who keeps to
a budget is spared; megabytes a second of one core are beside it for information. The event loop is watched from within
while contexts take in large results: a task that does nothing but sleep tells how long it was kept waiting.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median

from autogen_core.models import AssistantMessage, UserMessage

from benchmarks.comparing import Measured, print_measured
from benchmarks.contents import KINDS, content_of
from benchmarks.micro import one_call, one_result
from benchmarks.scratch import scratch_store
from memory_context import MemoryContext, MemoryStore
from memory_context.compaction import Compactors, Hint, Result
from memory_context.tokens import default_token_counter

__all__ = ["LENGTHS", "LOOP_LENGTHS", "Held", "main", "measure_compacting", "watched_loop"]

LENGTHS = {"4 kB": 4_000, "40 kB": 40_000, "1 MB": 1_000_000}
LOOP_LENGTHS = {"1 MB": 1_000_000, "10 MB": 10_000_000}
LEAST_SPEED = 10.0
"""Megabytes a second, of contents of the greatest length."""
MOST_HELD_SECONDS = 0.05

_BEAT_SECONDS = 0.001
_WARM_UP = 1
_LOOP_KINDS = ("source code", "test log", "JSON", "Markdown page")
_TASK = "Find out why load_budget_ledger in store/ledger/order_report.py fails, and what the invoice of 2026-03-17 says."
_SAID = "I look for load_budget_ledger first."
_ANSWER = "It is in order_report.py; next I read the customer's invoice and compare the totals."

_counter = default_token_counter()


async def measure_compacting(
    rounds: int, lengths: dict[str, int] = LENGTHS, loop_lengths: dict[str, int] = LOOP_LENGTHS
) -> list[Measured]:
    """Run all measurements."""
    measured = [one for name, length in lengths.items() for kind in KINDS for one in _cost(kind, name, length, rounds)]
    async with scratch_store() as (store, _):
        for name, length in loop_lengths.items():
            measured.append(await _held(store, name, length))
    return measured


def _cost(kind: str, name: str, length: int, rounds: int) -> list[Measured]:
    """A result of a kind is compacted, fresh and then answered: against counting its tokens once."""
    seconds: dict[str, list[float]] = {"excerpt": [], "facts": [], "token count": []}
    compactors = Compactors()
    for number in range(_WARM_UP + rounds):
        content = content_of(kind, length, number)
        result = Result(content, "run", json.dumps({"query": kind}), token_count=_counter.count(content))
        fresh = Hint(_TASK, _SAID, facts_limit_tokens=0, counter=_counter)
        answered = Hint(_TASK, _SAID, _ANSWER, excerpt_limit_tokens=0, counter=_counter)
        ways = {
            "excerpt": lambda result=result, hint=fresh: compactors.compact(result, hint),
            "facts": lambda result=result, hint=answered: compactors.compact(result, hint),
            "token count": lambda content=content: _counter.count(content),
        }
        for way, once in list(ways.items())[:: 1 if number % 2 else -1]:
            began = time.perf_counter()
            once()
            if number >= _WARM_UP:
                seconds[way].append(time.perf_counter() - began)
    times = {way: median(each) for way, each in seconds.items()}
    measured: list[Measured] = []
    for way in ("excerpt", "facts"):
        speed = length / 1e6 / times[way]
        is_bound = length >= max(LENGTHS.values())
        measured.append(
            Measured(
                f"{kind}, {name}: {way} / token count",
                times[way] / times["token count"],
                f">= {LEAST_SPEED:g} MB/s" if is_bound else "",
                speed >= LEAST_SPEED if is_bound else None,
                f"{speed:.1f} MB/s, {1000 * times[way]:.2f} ms / {1000 * times['token count']:.2f} ms",
            )
        )
    return measured


class Held:
    """How long the event loop was held: the longest time that a task had to wait beyond what it asked for."""

    seconds = 0.0


@contextmanager
def watched_loop() -> Iterator[Held]:
    """Watch the running event loop."""
    held = Held()

    async def beat() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_BEAT_SECONDS)
            held.seconds = max(held.seconds, time.perf_counter() - began - _BEAT_SECONDS)

    watcher = asyncio.create_task(beat())
    try:
        yield held
    finally:
        watcher.cancel()


async def _held(store: MemoryStore, name: str, length: int) -> Measured:
    """Large results come in, are shown and are answered: the longest time one operation held the event loop."""
    longest, where = 0.0, ""
    for kind in _LOOP_KINDS:
        context = MemoryContext(user_id="compacting", memory_store=store)
        message = one_result("run", content_of(kind, length, "loop"))
        operations = {
            "add_message of the task": lambda: context.add_message(UserMessage(content=_TASK, source="user")),
            "add_message of the call": lambda: context.add_message(one_call("run")),
            "add_message of the result": lambda: context.add_message(message),
            "get_messages": context.get_messages,
            "add_message of the answer": lambda: context.add_message(
                AssistantMessage(content=_ANSWER, source="assistant")
            ),
            "get_messages after it": context.get_messages,
        }
        for operation, once in operations.items():
            with watched_loop() as held:
                await asyncio.sleep(0)
                await once()
                await asyncio.sleep(2 * _BEAT_SECONDS)
            if held.seconds > longest:
                longest, where = held.seconds, f"{operation}, {kind}"
    return Measured(
        f"the event loop is held by a result of {name}, at most, ms",
        1000 * longest,
        f"<= {1000 * MOST_HELD_SECONDS:g}",
        longest <= MOST_HELD_SECONDS,
        where,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compacting", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="times each is measured (default 5)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_compacting(given.rounds))
    print_measured(measured, "choosing what survives of a result")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
