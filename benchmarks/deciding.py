"""What deciding about a turn costs: by rules alone, and around a light model that takes its time.

    python -m benchmarks.deciding [--rounds N] [--json FILE]

The rules decide beside 200 references and 100,000 tokens of text in sight. The light model is a stub that answers after
a fixed time, so whatever `add_message` and `get_messages` take beyond that is the library's own.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from autogen_core.models import CreateResult, LLMMessage, ModelInfo, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from benchmarks.comparing import WARM_UP, Measured, print_measured, timed
from benchmarks.micro import one_call, one_result
from benchmarks.passages import new_content
from benchmarks.scratch import scratch_store
from benchmarks.searching import query_from
from memory_context import ContextPolicy, MemoryContext, MemoryStore, ObservationPolicy
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.text.tokenize import folded
from memory_context.foundation.tokens import default_token_counter
from memory_context.recall.expansion.candidates import CandidateReference, ExpansionRequest
from memory_context.recall.expansion.decide import decide

__all__ = ["main", "measure_deciding"]

REFERENCES = 200
VISIBLE_TOKENS = 100_000
RULES_TARGET_MS = 20
MODEL_SECONDS = 0.05
WAIT_TARGET_MS = 10
_KEPT_CHARACTERS = 300
_ANSWER = json.dumps({"expand": [], "ambiguous": False, "search": ""})


async def measure_deciding(rounds: int) -> list[Measured]:
    """Run all measurements; those around a light model in a scratch database."""
    rng = random.Random(24)
    measured = [await _by_rules(rng, rounds)]
    async with scratch_store() as (store, _):
        measured.append(await _around_model(store, rng, rounds))
    return measured


async def _by_rules(rng: random.Random, rounds: int) -> Measured:
    counter = default_token_counter()
    references = tuple(_reference(rng, number) for number in range(REFERENCES))
    visible: list[str] = []
    tokens = 0
    while tokens < VISIBLE_TOKENS:
        content = new_content(rng, 8)
        visible.append(folded(content))
        tokens += counter.count(content)
    seconds: list[float] = []
    looks = 0

    def look() -> Sequence[str]:
        nonlocal looks
        looks += 1
        return visible

    for _ in range(WARM_UP + rounds):
        # in the words of one of them, so that it is weighed against the others and against what is in sight
        request = f"What has {rng.choice(references).ref.description} to do with {query_from(rng)}?"
        turn = ExpansionRequest(request, new_content(rng, 1), references, look)
        seconds.append(await timed(decide(turn, None, counter)))
    ms, slowest = (1000 * of(seconds[WARM_UP:]) for of in (median, max))
    return Measured(
        f"ms to decide by rules, {REFERENCES} references",
        ms,
        f"< {RULES_TARGET_MS}",
        ms < RULES_TARGET_MS,
        f"{tokens:,} tokens in sight, read for {looks} of {len(seconds)}; slowest {slowest:.1f} ms",
    )


def _reference(rng: random.Random, number: int) -> CandidateReference:
    ref = MemoryRef(f"run_shell_{number:06d}", query_from(rng), 2000)
    return CandidateReference(ref, "run_shell", new_content(rng, 1)[:_KEPT_CHARACTERS], -number - 1)


class SlowClient(ReplayChatCompletionClient):
    """A light model that takes a fixed time for every answer, and finds every request concrete.

    Attributes:
        seconds: What each answer took.
    """

    component_provider_override = "benchmarks.deciding.SlowClient"

    def __init__(self) -> None:
        info = ModelInfo(
            vision=False, function_calling=False, json_output=True, family="unknown", structured_output=False
        )
        super().__init__([], model_info=info)
        self.seconds: list[float] = []

    async def create(self, messages: Sequence[LLMMessage], **kwargs: Any) -> CreateResult:
        """Answer after a while."""
        self.seconds.append(await timed(asyncio.sleep(MODEL_SECONDS)))
        return CreateResult(finish_reason="stop", content=_ANSWER, usage=RequestUsage(0, 0), cached=False)


async def _around_model(store: MemoryStore, rng: random.Random, rounds: int) -> Measured:
    client = SlowClient()
    policy = ContextPolicy(observation=ObservationPolicy(mode="off"))  # else the client is asked in the background, too
    context = MemoryContext(user_id="deciding", memory_store=store, model_client=client, policy=policy)
    for _ in range(20):  # something to be asked about
        await context.get_messages()
        await context.add_message(one_call("tail"))
        await context.add_message(one_result("tail", new_content(rng, 6)))
    beyond: list[float] = []
    for _ in range(WARM_UP + rounds):
        request = UserMessage(content=f"What has {query_from(rng)} to do with it?", source="user")
        began = time.perf_counter()
        await context.add_message(request)
        await context.get_messages()
        beyond.append(time.perf_counter() - began - client.seconds[-1])
        assert len(client.seconds) == len(beyond)
    ms, slowest = (1000 * of(beyond[WARM_UP:]) for of in (median, max))
    return Measured(
        "ms of add_message and get_messages beyond the light model's answer",
        ms,
        f"< {WAIT_TARGET_MS}",
        ms < WAIT_TARGET_MS,
        f"the model answers after {1000 * median(client.seconds):.1f} ms; slowest {slowest:.1f} ms",
    )


# --- the terminal ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deciding", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="times each is measured (default 40)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_deciding(given.rounds))
    print_measured(measured, "deciding about a turn")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
