"""What choosing what survives of a result costs, and how long that holds the event loop.

    python -m benchmarks.compacting [--rounds N] [--largest N] [--json FILE]

Choosing is compared, in one run and by turns, with counting the tokens of the same text once, which nobody who keeps to
a budget is spared; megabytes a second of one core stand beside it (in processor time, as machines are shared). The
event loop is watched from within while contexts take in large results: a task that does nothing but sleep tells how
long it was kept waiting, beside how long any thread of plain Python keeps it waiting on the same machine.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from autogen_core.models import AssistantMessage, UserMessage

from benchmarks.comparing import Measured, print_measured
from benchmarks.contents import CALLS, KINDS, content_of
from benchmarks.micro import one_call, one_result
from benchmarks.scratch import scratch_store
from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.tokens import default_token_counter

__all__ = ["LARGEST", "Held", "main", "measure_compacting", "watched_loop"]

LARGEST = 1_000_000
"""Characters of the largest content that is timed; a 25th and a 250th of it are timed too."""
LEAST_SPEED = 10.0
"""Megabytes a second, of the largest contents."""
MOST_HELD_SECONDS = 0.05

_BEAT_SECONDS = 0.001
_WARM_UP = 1
_LOOP_KINDS = ("source code", "test log", "JSON", "Markdown page")
_TASK = "Find out why load_budget_ledger in store/ledger/order_report.py fails, and what the invoice of March says."
_SAID = "I look for load_budget_ledger first."
_ANSWER = "It is in order_report.py; next I read the customer's invoice and compare the totals."

_counter = default_token_counter()


async def measure_compacting(rounds: int, largest: int = LARGEST) -> list[Measured]:
    """Run all measurements; the event loop is watched with the largest contents and with ten times as large ones."""
    lengths = (largest // 250, largest // 25, largest)
    measured = [one for length in lengths for kind in KINDS for one in _cost(kind, length, rounds, length == largest)]
    async with scratch_store() as (store, _):
        for length in (largest, 10 * largest):
            measured.append(await _held(store, length))
    return measured


def _size(length: int) -> str:
    return f"{length / 1e6:g} MB" if length >= 1_000_000 else f"{length / 1000:g} kB"


def _cost(kind: str, length: int, rounds: int, has_target: bool) -> list[Measured]:
    """A result of a kind is compacted, fresh (excerpt and names) and answered (facts): against one token count."""
    seconds: dict[str, list[float]] = {"first view": [], "facts": [], "token count": []}
    compactors = Compactors()
    fresh = Hint(_TASK, _SAID, counter=_counter)
    answered = Hint(_TASK, _SAID, _ANSWER, excerpt_limit_tokens=0, counter=_counter)
    for number in range(_WARM_UP + rounds):
        content = content_of(kind, length, number)
        result = Result(content, "run", CALLS.get(kind, "{}"), token_count=_counter.count(content))
        ways: dict[str, Callable[[], object]] = {
            "first view": partial(compactors.compact, result, fresh),
            "facts": partial(compactors.compact, result, answered),
            "token count": partial(_counter.count, content),
        }
        for way, once in list(ways.items())[:: 1 if number % 2 else -1]:
            began = time.process_time()
            once()
            if number >= _WARM_UP:
                seconds[way].append(time.process_time() - began)
    times = {way: median(each) for way, each in seconds.items()}
    measured: list[Measured] = []
    for way in ("first view", "facts"):
        speed = length / 1e6 / times[way]
        measured.append(
            Measured(
                f"{kind}, {_size(length)}: {way} / token count",
                times[way] / times["token count"],
                f">= {LEAST_SPEED:g} MB/s" if has_target else "",
                speed >= LEAST_SPEED if has_target else None,
                f"{speed:.1f} MB/s, {1000 * times[way]:.2f} ms / {1000 * times['token count']:.2f} ms",
            )
        )
    return measured


class Held:
    """How long the event loop was held: the longest time that a task had to wait beyond what it asked for."""

    seconds = 0.0


@contextmanager
def watched_loop() -> Generator[Held]:
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


async def _held(store: MemoryStore, length: int) -> Measured:
    """Large results come in, are shown and are answered: the longest time one operation held the event loop."""
    _counter.count("the ränks are loaded once in a process")  # a short text in ASCII needs none
    longest, where = 0.0, ""
    contents = {kind: content_of(kind, length, "loop") for kind in _LOOP_KINDS} | _hostile(length)
    for kind, content in contents.items():
        for operation, once in _operations(store, content).items():
            with watched_loop() as held:
                await asyncio.sleep(0)
                await once()
                await asyncio.sleep(2 * _BEAT_SECONDS)
            if held.seconds > longest:
                longest, where = held.seconds, f"{operation}, {kind}"
    return Measured(
        f"the event loop is held by a result of {_size(length)}, at most, ms",
        1000 * longest,
        f"<= {1000 * MOST_HELD_SECONDS:g}",
        longest <= MOST_HELD_SECONDS,
        f"{where}; by a thread of plain Python: {1000 * await _held_by_thread():.1f} ms",
    )


def _hostile(length: int) -> dict[str, str]:
    """Return texts that are hard to convert: lone surrogates, one line of cut JSON, Chinese without a space."""
    chosen = random.Random(length)
    surrogates = " ".join(f"\ud83d{chosen.randrange(10**6)}\udc00 \x00" for _ in range(2000))
    chinese = "".join(chr(chosen.randrange(0x4E00, 0x9FFF)) for _ in range(20_000)) + "，"
    records = json.dumps([{"id": number, "name": f"record {number}"} for number in range(5000)])[:-1] + ", "
    texts = {"lone surrogates": surrogates, "Chinese": chinese, "one line of cut JSON": records}
    return {kind: (text * (length // len(text) + 1))[:length] for kind, text in texts.items()}


def _operations(store: MemoryStore, content: str) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """Return what is done with a content, in order."""
    context = MemoryContext(user_id="compacting", memory_store=store)
    task, call, result = UserMessage(content=_TASK, source="user"), one_call("run"), one_result("run", content)
    answer = AssistantMessage(content=_ANSWER, source="assistant")
    return {
        "add_message of the task": lambda: context.add_message(task),
        "add_message of the call": lambda: context.add_message(call),
        "add_message of the result": lambda: context.add_message(result),
        "get_messages": context.get_messages,
        "add_message of the answer": lambda: context.add_message(answer),
        "get_messages after it": context.get_messages,
    }


async def _held_by_thread() -> float:
    """Return how long any thread holds the loop on this machine: threads of Python take turns."""
    with watched_loop() as held:
        await asyncio.to_thread(lambda: sum(number % 7 for number in range(3_000_000)))
    return held.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compacting", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="times each is measured (default 5)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--largest", type=int, default=LARGEST, help=f"characters of the largest (default {LARGEST})")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_compacting(given.rounds, given.largest))
    print_measured(measured, "choosing what survives of a result")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
