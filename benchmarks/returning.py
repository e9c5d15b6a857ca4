"""What an agent's later sessions with one user cost beside the same sessions as its first ones.

    python -m benchmarks.returning [--users N] [--sessions N] [--json FILE]

Earlier sessions cost (user memory in the head, a tool that searches) and teach (which tools the agent will need). Two
kinds of runs are made here from a seed: of a coding agent that reads windows of 1,000 to 2,000 tokens, and of a
customer-service agent with small results. Each run is played twice, for a new user and for one who comes back.
"""

import argparse
import asyncio
import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from benchmarks.comparing import Measured, print_measured
from benchmarks.contents import content_of
from benchmarks.remembering import MemoryPlayer
from benchmarks.scratch import scratch_store
from benchmarks.traces import AGENT, Recorded, Run
from memory_context import ContextPolicy
from memory_context.foundation.tokens import default_token_counter

__all__ = ["SESSIONS", "USERS", "main", "measure_returning"]

USERS, SESSIONS = 6, 5
LAST_SESSION_TARGET = 0.92
"""Of what it costs as a first one: the last session of the coding agent."""

_Draw = random.Random


def _windows(draw: _Draw) -> int:
    """Return the characters of a coding agent's next result: mostly a window of a file, else little, seldom much."""
    share = draw.random()
    if share < 0.55:
        return draw.randint(3_500, 7_500)
    return draw.randint(100, 1_500) if share < 0.95 else draw.randint(9_000, 20_000)


def _records(draw: _Draw) -> int:
    return draw.randint(200, 2_500) if draw.random() < 0.93 else draw.randint(4_000, 6_000)


_KINDS: dict[str, tuple[Callable[[_Draw], int], Callable[[_Draw], int], int]] = {
    "coding agent": (lambda draw: max(6, min(80, int(draw.lognormvariate(3.2, 0.5)))), _windows, 4_000),
    "customer service": (lambda draw: draw.randint(5, 18), _records, 6_000),
}
"""Of each kind the steps of a run, the characters of a result, and those of the system prompt."""


def _runs(kind: str) -> Iterator[Run]:
    steps, characters, system = _KINDS[kind]
    number = 0
    while True:
        draw = _Draw(f"{kind} {number}")
        messages: list[LLMMessage] = [
            UserMessage(content=content_of("prose", draw.randint(600, 3_000), (kind, number)), source="user")
        ]
        for step in range(steps(draw)):
            thought = content_of("prose", draw.randint(60, 500), (kind, number, step, "thought"))
            call = FunctionCall(
                f"{number}-{step}", json.dumps({"of": f"{number}/{step}"}), draw.choice(["open", "run"])
            )
            content = content_of(
                draw.choice(["source code", "search in files", "test log"]), characters(draw), (number, step)
            )
            result = FunctionExecutionResult(content=content, name=call.name, call_id=call.id, is_error=False)
            messages += [
                AssistantMessage(content=[call], thought=thought, source=AGENT),
                FunctionExecutionResultMessage(content=[result]),
            ]
        messages.append(AssistantMessage(content="Done.", source=AGENT))
        recorded = tuple(Recorded(message, (index,)) for index, message in enumerate(messages))
        yield Run(f"{kind} {number}", content_of("prose", system, (kind, "system")), recorded)
        number += 1


async def measure_returning(users: int = USERS, sessions: int = SESSIONS) -> list[Measured]:
    """Return what each session costs for users who come back, of what it costs for new ones: tools, head and all."""
    count = cache(default_token_counter().count)
    measured: list[Measured] = []
    async with scratch_store() as (store, _):
        for kind in _KINDS:
            runs = _runs(kind)
            prices = [[0.0, 0.0] for _ in range(sessions)]
            for _ in range(users):
                user = f"benchmark-{uuid.uuid4().hex}"
                for number in range(sessions):
                    run = next(runs)
                    for place, who in enumerate((user, None)):
                        played = await MemoryPlayer(run, store, ContextPolicy(), count, who).play()
                        prices[number][place] += played.whole_cost.price
                    await store.flush_index()
            for number, (back, new) in enumerate(prices, 1):
                is_target = number == sessions and kind == "coding agent"
                measured.append(
                    Measured(
                        f"{kind}: session {number} of a user / as the first one",
                        back / new,
                        f"<= {LAST_SESSION_TARGET:g}" if is_target else "",
                        back / new <= LAST_SESSION_TARGET if is_target else None,
                        f"{back:,.0f} / {new:,.0f} in prices of a token",
                    )
                )
    return measured


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.returning", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, default=USERS, help=f"who come back (default {USERS})")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"of each (default {SESSIONS})")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_returning(given.users, given.sessions))
    print_measured(measured, "sessions of users who come back")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
