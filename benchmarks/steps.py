"""What a step of an agent costs as its session grows: beside the copies handed out, a step costs what is new in it.

    python -m benchmarks.steps [--messages N] [--rounds N] [--json FILE]

A step is one `add_message` with a call, one with its result, one `get_messages`. The copies that are handed out are as
many as there are messages, so they are measured by themselves and left out. All figures are processor time of one
process, medians, and compared within one run. Storing is left out too: it costs the same in any step.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from autogen_core.models import LLMMessage, UserMessage

from benchmarks.comparing import WARM_UP, Measured, print_measured
from benchmarks.micro import one_call, one_result, text
from benchmarks.scratch import UntouchedStore
from memory_context import ContextPolicy, MemoryContext
from memory_context.foundation.policy import ArchivePolicy
from memory_context.view.view import View

__all__ = ["MESSAGES", "main", "measure_steps"]

MESSAGES = 3000
"""In view at last; a thirtieth of it first, and three times as many (and a third) behind folds."""
MOST_GROWTH_RATIO = 1.5
RESULT_CHARACTERS = 1000
FOLDED_BUDGET = 40_000


@dataclass
class _Copying:
    """Processor time spent on copies to hand out."""

    seconds: float = 0.0


async def measure_steps(rounds: int, messages: int = MESSAGES) -> list[Measured]:
    """Measure steps of sessions without a budget, and of sessions whose beginning is folded."""
    few = messages // 30
    in_view = {count: await _step(_session(count, None), rounds) for count in (few, messages)}
    folded = {
        count: await _step(_session(count, FOLDED_BUDGET), rounds) for count in (messages // 3, messages * 10 // 3)
    }
    return [
        _compared("a step in view of", in_view),
        _compared("a step behind which stand, mostly folded,", folded),
    ]


def _compared(name: str, steps: dict[int, tuple[float, float]]) -> Measured:
    (few, (small, _)), (many, (large, copies)) = steps.items()
    return Measured(
        f"{name} {many:,} messages / {few:,}, beside the copies",
        large / small,
        f"<= {MOST_GROWTH_RATIO:g}",
        large <= MOST_GROWTH_RATIO * small,
        f"{1000 * large:.2f} ms / {1000 * small:.2f} ms; the copies {1000 * copies:.2f} ms",
    )


def _session(messages: int, token_budget: int | None) -> MemoryContext:
    """Return a context that has so many messages."""
    history: list[LLMMessage] = [UserMessage(content="Read the logs one after another.", source="user")]
    while len(history) < messages:
        history += [one_call("look"), one_result("look", text(RESULT_CHARACTERS))]
    policy = ContextPolicy(token_budget=token_budget, archive=ArchivePolicy(enabled=False))
    return MemoryContext("steps", memory_store=UntouchedStore(), policy=policy, initial_messages=history)


async def _step(context: MemoryContext, rounds: int) -> tuple[float, float]:
    """Return the median processor seconds of a step beside its copies, and those of the copies."""
    await context.get_messages()
    seconds: list[float] = []
    copying: list[float] = []
    for number in range(WARM_UP + rounds):
        call, result = one_call("look"), one_result("look", text(RESULT_CHARACTERS))
        gc.collect()  # what it costs to look through the objects of a process is not the step's
        with _copies_timed() as copies:
            began = time.process_time()
            await context.add_message(call)
            await context.add_message(result)
            handed_out = await context.get_messages()
            whole = time.process_time() - began
        del handed_out  # after the clock has stopped: freeing them belongs to the copies
        if number >= WARM_UP:
            seconds.append(whole - copies.seconds)
            copying.append(copies.seconds)
    return median(seconds), median(copying)


@contextmanager
def _copies_timed() -> Generator[_Copying]:
    """Measure what making the copies takes, within the step that hands them out."""
    copying, make = _Copying(), View.copies

    def timed(view: View, *, joins_user_messages: bool = False) -> list[LLMMessage]:
        began = time.process_time()
        copies = make(view, joins_user_messages=joins_user_messages)
        copying.seconds += time.process_time() - began
        return copies

    View.copies = timed
    try:
        yield copying
    finally:
        View.copies = make


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"in view at last (default {MESSAGES})")
    parser.add_argument("--rounds", type=int, default=40, help="steps that are measured (default 40)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_steps(given.rounds, given.messages))
    print_measured(measured, "steps of long sessions")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
