"""Sessions of a million tokens under small windows: what folding alone and an observer make of them.

    python -m benchmarks.long_session [--tokens N] [--windows 16000,100000] [--arms folding,observer]
                                      [--traces DIR [--sets a,b]] [--light-price R] [--pause S] [--retrieval DIR]
                                      [--json FILE]

Runs are chained into one session: made ones, or recorded ones with `--traces`. Calls of the agent cost what
`benchmarks.prompts` says. The light model's cost `--light-price` of an ordinary token for each that it reads, none of
them from a cache, and five times as much for each that it writes. The observer is scripted: its lines have the first
words of each message. It answers after two pauses; a pause passes before each call of the agent, in place of its model.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage

from benchmarks.comparing import Measured, print_measured
from benchmarks.long_runs import LongRun, chained, made_runs, recorded_runs
from benchmarks.needles import query_of
from benchmarks.peers import TextCounter
from benchmarks.playing import Reach
from benchmarks.prompts import Cost, Rendered, render
from benchmarks.remembering import MemoryPlayer
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from benchmarks.traces import Needle, Recorded
from memory_context import ContextPolicy, MemoryStore
from memory_context.compaction.observation.coordinator import BufferingCoordinator
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.messages import Address, calls_of, long_strings
from memory_context.foundation.policy import ObservationPolicy
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.observation_decisions import (
    ObservationBuffered,
    ObservationsActivated,
    Reflected,
)
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.testing import observe_by_script

__all__ = ["ARMS", "LongFigures", "main", "measure_long_session"]

TOKENS, WINDOWS, LIGHT_PRICE, PAUSE_SECONDS = 1_000_000, "16000,100000", 0.1, 0.01
WRITTEN_PRICE = 5
ARMS = {"folding": "off", "observer": "auto"}
LATER = 4
"""Messages after which a string is needed "later"."""
LEAST_STABLE, MOST_ADDED_MS = 0.9, 2.0
_NAMED = 12
"""Most messages of a line that leads to each of them in one call."""


@dataclass
class LongFigures:
    """What one session came to in one arm.

    Attributes:
        price: Of the agent's calls, instructions and memory tools included; `light_price` of the light model's.
        whole_price: Of keeping everything, without a memory.
        stable: Share of the tokens sent that stood unchanged at the head of the call before.
        later: Strings of results that calls used at least four messages afterwards. `later_in_one_call` counts those
            visible, behind a key that is shown, among the messages of a line that names at most twelve, or found by
            `read_history` with the words of the call; `later_lost` those that no look-up reaches.
        again: Arguments of calls that an earlier call had, not among the last four messages.
        observed_tokens: What observers read of messages; `written_tokens` what they made of it.
        waited_ms: Per step, if it waited for an observer; `added_ms` per step that changed nothing: what the
            coordinator took.
        broken: Views over the budget, with a call apart from its result, without the task, or counted wrongly.
    """

    arm: str
    window: int
    tokens: int = 0
    calls: int = 0
    price: float = 0.0
    light_price: float = 0.0
    whole_price: float = 0.0
    whole_tokens: int = 0
    sent_tokens: int = 0
    light_tokens: int = 0
    stable: float = 0.0
    folds: int = 0
    activations: int = 0
    reflections: int = 0
    later: int = 0
    later_visible: int = 0
    later_in_one_call: int = 0
    later_lost: int = 0
    again: int = 0
    again_visible: int = 0
    observed_tokens: int = 0
    written_tokens: int = 0
    log_tokens: int = 0
    log_lines: int = 0
    waited_p95_ms: float = 0.0
    waited_steps: int = 0
    added_p95_ms: float = 0.0
    broken: int = 0
    seconds: float = 0.0

    @property
    def cost(self) -> float:
        """All calls, relative to keeping everything."""
        return (self.price + self.light_price) / self.whole_price


class LightModel:
    """Answers for observers and reflectors by script, after a delay, and counts the tokens."""

    def __init__(self, delay_seconds: float, count: TextCounter) -> None:
        self._delay_seconds = delay_seconds
        self._count = count
        self.read_tokens = self.written_tokens = 0

    async def __call__(self, messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        """Return an answer."""
        await asyncio.sleep(self._delay_seconds)
        text = observe_by_script(messages)
        self.read_tokens += sum(self._count(str(message.content)) for message in messages)
        self.written_tokens += self._count(text)
        return Completion(text)


class LongPlayer(MemoryPlayer):
    """Plays a chained run, with a pause before each call of the agent, and notes what each step took."""

    def __init__(
        self,
        run: LongRun,
        store: MemoryStore,
        policy: ContextPolicy,
        count: TextCounter,
        light_model: LightModel | None,
        pause_seconds: float,
    ) -> None:
        super().__init__(run.run, store, policy, count)
        self._memory.observation.completion_function = light_model
        self.again: list[bool] = []
        self.lost = 0
        self.waited_ms: list[float] = []
        self._pause_seconds = pause_seconds
        self._used: dict[str, int] = {}
        self._at = 0
        self._read_history = next(tool for tool in self._memory.tools() if tool.name == "read_history")

    @property
    def transcript(self) -> Transcript:
        """Of the context."""
        return self._memory.transcript

    async def add(self, recorded: Recorded) -> None:
        """Add the next message, and note whether it waited for an observer."""
        self._at += 1
        self._used |= dict.fromkeys(_arguments(recorded.message), self._at)
        made, began = len(self.transcript.log), time.perf_counter()
        await super().add(recorded)
        took = 1000 * (time.perf_counter() - began)
        new = [one for _, one in self.transcript.log[made:] if isinstance(one, ObservationBuffered)]
        self.waited_ms.append(took if any(one.chunk.record and one.chunk.record.is_sync for one in new) else 0.0)

    async def reach(self, needle: Needle, view: str, message: AssistantMessage) -> Reach:
        """Try the keys that the view shows, the numbers of observations, and the search of `read_history`."""
        position, place = self._positions[needle.output_index]
        stored = self.transcript[position].part(Address("result", place)).stored
        keys = {ref.key for ref in stored.refs} if stored else set[str]()
        retrieves = await self._retrieves_to(needle, position, keys, view)
        if retrieves == 1:
            return Reach(1)
        number = {"first_message": position + 1, "limit": 1}
        is_named = any(first <= position < min(last, first + _NAMED) for first, last in self._ranges())
        for arguments in ([number] if is_named else []) + [{"query": query_of(message, needle.text)[:400]}]:
            if needle.text in await self._read_history.run_json(arguments, CancellationToken()):
                return Reach(1)
        if retrieves is None and any(first <= position < last for first, last in self._ranges()):
            return Reach(2)
        self.lost += retrieves is None
        return Reach(retrieves)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the messages that the lines of the log name."""
        for chunk in self.transcript.state.observation.chunks:
            for line in chunk.lines:
                yield from line.ranges

    async def _call_model(self) -> list[Rendered]:
        await asyncio.sleep(self._pause_seconds)
        view = await super()._call_model()
        text = "\n".join(one.text for one in view)
        for value in _arguments(self._run.messages[self._at].message):
            if self._at - self._used.get(value, self._at) >= LATER:
                self.again.append(value in text)
        return view


def _arguments(message: LLMMessage) -> set[str]:
    """Return the short arguments of calls."""
    values = (value for call in calls_of(message) for _, value in long_strings(call.arguments, 6))
    return {value for value in values if len(value) <= 120 and "\n" not in value}


def everything(run: LongRun, count: TextCounter) -> Cost:
    """Return the cost of keeping everything: each call reads the one before from the cache."""
    cost, before, now = Cost(), 0, count(run.run.system_prompt or "")
    for recorded in run.run.messages:
        if isinstance(recorded.message, AssistantMessage):
            cost += Cost(1, now, before, now)
            before = now
        now += render(recorded.message, count).tokens
    return cost


@contextmanager
def _end_of_steps_timed() -> Generator[list[float]]:
    """Measure what the coordinator takes at the end of a step in which it decides and starts nothing."""
    milliseconds, end_step = list[float](), BufferingCoordinator.end_step

    async def timed(self: BufferingCoordinator, *given: Any) -> None:
        before, began = (len(self.transcript.log), self.is_processing), time.process_time()
        await end_step(self, *given)
        if (len(self.transcript.log), self.is_processing) == before:
            milliseconds.append(1000 * (time.process_time() - began))

    BufferingCoordinator.end_step = timed
    try:
        yield milliseconds
    finally:
        BufferingCoordinator.end_step = end_step


async def measure_long_session(
    run: LongRun, arm: str, window: int, store: MemoryStore, *, light_price: float, pause_seconds: float
) -> LongFigures:
    """Play a session in one arm."""
    count = cache(default_token_counter().count)
    policy = ContextPolicy(
        token_budget=window,
        observation=ObservationPolicy(mode=ARMS[arm]),
    )
    light = LightModel(2 * pause_seconds, count) if arm == "observer" else None
    began, whole = time.perf_counter(), everything(run, count)
    player = LongPlayer(run, store, policy, count, light, pause_seconds)
    with _end_of_steps_timed() as added:
        figures = await player.play(run.needles)
    transcript, memory, cost = player.transcript, figures.memory, figures.whole_cost
    assert memory is not None
    chunks = [one.chunk for _, one in transcript.decisions(ObservationBuffered)]
    later = [one for one in figures.sought if one.distance >= LATER]
    read, written = (light.read_tokens, light.written_tokens) if light else (0, 0)
    return LongFigures(
        arm,
        window,
        tokens=sum(render(recorded.message, count).tokens for recorded in run.run.messages),
        calls=cost.calls,
        price=cost.price,
        light_price=light_price * (read + WRITTEN_PRICE * written),
        whole_price=whole.price,
        whole_tokens=whole.tokens,
        sent_tokens=cost.tokens,
        light_tokens=read + written,
        stable=cost.cached_tokens / cost.tokens,
        folds=memory.folds,
        activations=len(transcript.decisions(ObservationsActivated)),
        reflections=len(transcript.decisions(Reflected)),
        later=len(later),
        later_visible=sum(one.is_visible for one in later),
        later_in_one_call=sum(one.is_visible or one.reach.retrieves == 1 for one in later),
        later_lost=player.lost,
        again=len(player.again),
        again_visible=sum(player.again),
        observed_tokens=sum(transcript.full_tokens(one.first, one.last) for one in chunks),
        written_tokens=sum(one.tokens for one in chunks),
        log_tokens=transcript.state.observation.tokens,
        log_lines=len(transcript.state.observation.lines),
        waited_p95_ms=_p95(player.waited_ms),
        waited_steps=sum(ms > 0 for ms in player.waited_ms),
        added_p95_ms=_p95(added),
        broken=memory.over_budget + memory.miscounted + figures.broken_views + figures.views_without_task,
        seconds=time.perf_counter() - began,
    )


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))] if values else 0.0


def targets(figures: Sequence[LongFigures]) -> list[Measured]:
    """Return what sessions with a log have to reach, beside folding alone."""
    folding = {one.window: one for one in figures if one.arm == "folding"}
    measured: list[Measured] = []
    for one in figures:
        name = f"{one.arm}, window {one.window:,}"
        beside = folding.get(one.window)
        if one is beside:
            continue
        reached = one.later_in_one_call / one.later if one.later else 1.0
        measured += [
            Measured(f"{name}: stable share", one.stable, f">= {LEAST_STABLE}", one.stable >= LEAST_STABLE),
            Measured(f"{name}: waiting, p95 ms", one.waited_p95_ms, "0", one.waited_p95_ms == 0),
            Measured(
                f"{name}: added below the threshold, p95 ms",
                one.added_p95_ms,
                "<= 2",
                one.added_p95_ms <= MOST_ADDED_MS,
            ),
            Measured(f"{name}: later strings visible or one call away", reached, "1", reached == 1),
            Measured(f"{name}: later strings lost", one.later_lost, "0", one.later_lost == 0),
            Measured(f"{name}: broken views", one.broken, "0", one.broken == 0),
        ]
        if beside is not None:
            measured.append(Measured(f"{name}: cost beside folding", one.cost / beside.cost))
    return measured


_COLUMNS = (
    "arm, window|cost|light|stable|folds|activated|reflected|log tokens|written / read|light / saved|later|visible"
    "|one call|lost|again|visible|broken|s"
)


def print_figures(figures: Sequence[LongFigures], title: str) -> None:
    """Print what each arm came to."""
    print_table(
        title,
        _COLUMNS.split("|"),
        [
            [
                f"{one.arm}, {one.window:,}",
                f"{one.cost:.4f}",
                f"{one.light_price / one.whole_price:.4f}",
                f"{one.stable:.3f}",
                str(one.folds),
                str(one.activations),
                str(one.reflections),
                f"{one.log_tokens:,}",
                f"{one.written_tokens / one.observed_tokens:.3f}" if one.observed_tokens else "-",
                f"{one.light_tokens / (one.whole_tokens - one.sent_tokens):.4f}",
                *map(str, (one.later, one.later_visible, one.later_in_one_call, one.later_lost)),
                *map(str, (one.again, one.again_visible, one.broken)),
                f"{one.seconds:.0f}",
            ]
            for one in figures
        ],
    )


async def _measure(given: argparse.Namespace) -> list[LongFigures]:
    source = made_runs() if given.traces is None else recorded_runs(given.traces, given.sets.split(","))
    session = chained(source, given.tokens, cache(default_token_counter().count))
    figures: list[LongFigures] = []
    async with scratch_store() as (store, _):
        for window in map(int, given.windows.split(",")):
            for arm in given.arms.split(","):
                figures.append(
                    await measure_long_session(
                        session, arm, window, store, light_price=given.light_price, pause_seconds=given.pause
                    )
                )
                print(f"{arm}, window {window:,}: {figures[-1].seconds:.0f} s", flush=True)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_session", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"of the session (default {TOKENS:,})")
    parser.add_argument("--windows", default=WINDOWS, help=f"budgets of the views (default {WINDOWS})")
    parser.add_argument("--arms", default=",".join(ARMS), help="folding, observer (default: both)")
    parser.add_argument("--traces", type=Path, help="folder with <set>.jsonl files; else the runs are made here")
    parser.add_argument("--sets", default="openhands_swebench,livemcp", help="names, with commas between")
    parser.add_argument("--light-price", type=float, default=LIGHT_PRICE, help="of a token that the light model reads")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help="seconds before each call of the agent")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    given = parser.parse_args(arguments)
    figures = asyncio.run(_measure(given))
    print_figures(figures, f"one session of {figures[0].tokens:,} tokens, {figures[0].calls:,} calls")
    print_measured(measured := targets(figures), "targets")
    whole: dict[str, Any] = {"sessions": [asdict(one) for one in figures], "targets": [asdict(one) for one in measured]}
    if given.json:
        given.json.write_text(json.dumps(whole, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
