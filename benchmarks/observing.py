"""What a log keeps of recorded runs whose observer loses half of its lines.

    python -m benchmarks.observing --traces DIR [--sets a,b] [--half 0|1] [--seeds N]

A needle is a string that stood in one large tool output only and that a call at least four messages later used. The
messages before that call are observed in chunks, by two observers: one that copies each line of each message, and one
that copies the first three lines, both then losing half of their lines. Counted are needles that the observer's own
lines lack: how many stand in the log because the facts check appended them.
"""

import argparse
import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage, UserMessage

from benchmarks.tables import print_table
from benchmarks.traces import Needle, Run, read_needles, read_runs, set_names
from memory_context.compaction.observation.observer import ObserverOutput, run_observer
from memory_context.compaction.observation.reading import ObservedMessage
from memory_context.foundation.compactors.excerpt import excerpt, render_passages
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.messages import heading_of, texts_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import default_token_counter

__all__ = ["Observed", "main", "measure_observing", "observed_run"]

POLICY = ContextPolicy()
COUNTER = default_token_counter()
CHUNK_TOKENS = 8_000
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
_HEADING = re.compile(r"=== (\d+) \|.*")


@dataclass
class Observed:
    """Sums over needles and chunks.

    Attributes:
        lacking: Needles that the observer read and whose lines lack them; `kept` of these stand in the log.
        unread: Needles outside of the excerpt that an observer reads of a large output.
    """

    lacking: int = 0
    kept: int = 0
    unread: int = 0
    read_tokens: int = 0
    log_tokens: int = 0
    fact_tokens: int = 0


Script = Callable[[Sequence[LLMMessage], int], Completion]


def copying(lines: int | None, seed: str) -> Script:
    """Return an observer that copies the first lines of each message and loses half of them."""
    rng = random.Random(seed)

    def answer(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        said: list[str] = []
        number, count = "", 0
        for text in str(messages[-1].content).splitlines():
            if (heading := _HEADING.fullmatch(text)) is not None:
                number, count = heading[1], 0
            elif number and text.strip() and (lines is None or count < lines):
                count += 1
                said += [f"- 00:00 ! {text} ({number})"] if rng.random() < 0.5 else []
        return Completion("\n".join(["<observations>", *said, "</observations>"]))

    return answer


def observed_run(run: Run) -> tuple[list[ObservedMessage], dict[int, int]]:
    """Return a run's messages as an observer reads them, one a minute, and their positions by trace index."""
    messages: list[ObservedMessage] = []
    positions: dict[int, int] = {}
    said = task = ""
    for position, recorded in enumerate(run.messages):
        message = recorded.message
        words = "\n".join([task, said])
        text = "\n".join(
            f"{heading_of(message, address)}:\n{_first_view(part, words)}" for address, part in texts_of(message)
        )
        if isinstance(message, AssistantMessage):
            said, source, origin = text, "assistant", "agent"
        elif isinstance(message, FunctionExecutionResultMessage):
            source, origin = ", ".join(dict.fromkeys(result.name for result in message.content)), "tool"
        else:
            source, origin = "user", "user" if isinstance(message, UserMessage) else "other"
            task = text
        at = START + timedelta(minutes=position)
        messages.append(ObservedMessage(position, source, origin, at, text, COUNTER.count(text)))
        positions |= dict.fromkeys(recorded.indexes, position)
    return messages, positions


def _first_view(text: str, words: str) -> str:
    tokens = COUNTER.count(text)
    if tokens <= POLICY.first_view_limit_tokens:
        return text
    return render_passages(text, excerpt(text, POLICY.excerpt_limit_tokens, COUNTER, tokens, words=words))


async def measure_observing(
    run: Run, needles: Sequence[Needle], script: Script, sums: Observed, chunk_tokens: int = CHUNK_TOKENS
) -> None:
    """Observe the chunk that holds each needle, up to the call before the one that uses it."""
    messages, positions = observed_run(run)
    done: dict[tuple[int, int], ObserverOutput] = {}
    for needle in needles:
        held, needed = positions[needle.output_index], positions[needle.needed_index]
        chunk = next(one for one in _chunks(messages[: needed - 1], chunk_tokens) if one[-1].position >= held)
        ends = chunk[0].position, chunk[-1].position + 1
        if ends not in done:
            done[ends] = await _observed(chunk, "\n".join(one.text for one in messages[: ends[0]][-1:]), script)
            sums.read_tokens += sum(one.tokens for one in chunk)
            sums.log_tokens += sum(COUNTER.count(line.text) for line in done[ends].lines)
            sums.fact_tokens += sum(COUNTER.count(line.text) for line in done[ends].lines if line.kind == "fact")
        if needle.text not in messages[held].text:
            sums.unread += 1
        elif not _states(done[ends], needle.text, lambda kind: kind != "fact"):
            sums.lacking += 1
            sums.kept += _states(done[ends], needle.text, lambda kind: kind == "fact")


def _states(output: ObserverOutput, needle: str, is_wanted: Callable[[str], bool]) -> bool:
    return any(needle in line.text for line in output.lines if is_wanted(line.kind))


def _chunks(messages: Sequence[ObservedMessage], limit_tokens: int) -> Iterator[list[ObservedMessage]]:
    chunk: list[ObservedMessage] = []
    for message in messages:
        chunk.append(message)
        if sum(one.tokens for one in chunk) >= limit_tokens:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


async def _observed(chunk: Sequence[ObservedMessage], previous: str, script: Script) -> ObserverOutput:
    async def complete(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        return script(messages, limit_tokens)

    return await run_observer(
        complete,
        chunk,
        first=chunk[0].position,
        last=chunk[-1].position + 1,
        previous=previous,
        instructions="",
        counter=COUNTER,
        light_window_tokens=128_000,
        now=START,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with <set>.jsonl files and needles/")
    parser.add_argument("--sets", default="", help="names, with commas between; default all with needles")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only runs whose name has this parity of its hash")
    parser.add_argument("--seeds", type=int, default=3, help="times that each observer loses other lines")
    given = parser.parse_args(arguments)
    rows: list[list[str]] = []
    for name in [one for one in given.sets.split(",") if one] or set_names(given.traces):
        needles = read_needles(given.traces, "needles", name)
        runs = [run for run in read_runs(given.traces, name) if run.id in needles and _is_in(run.id, given.half)]
        observers: dict[str, list[Script]] = {
            "every line, half lost": [copying(None, f"{name}{seed}") for seed in range(given.seeds)],
            "three lines, half lost": [copying(3, f"{name}{seed}") for seed in range(given.seeds)],
        }
        for observer, scripts in observers.items() if runs else ():
            sums = Observed()
            for script in scripts:
                for run in runs:
                    asyncio.run(measure_observing(run, needles[run.id], script, sums))
            rows.append([name, observer, *_row(sums)])
    heads = ["set", "observer", "needles its lines lack", "in the log", "share", "not read", "log", "facts"]
    print_table("strings that a later call uses, in the log thanks to the facts check", heads, rows)


def _is_in(run_id: str, half: int | None) -> bool:
    return half is None or sha256(run_id.encode()).digest()[0] % 2 == half


def _row(sums: Observed) -> Iterator[str]:
    yield f"{sums.lacking}"
    yield f"{sums.kept}"
    yield f"{sums.kept / max(sums.lacking, 1):.2f}"
    yield f"{sums.unread}"
    yield f"{sums.log_tokens / max(sums.read_tokens, 1):.0%} of what was read"
    yield f"{sums.fact_tokens / max(sums.read_tokens, 1):.1%}"


if __name__ == "__main__":
    main()
