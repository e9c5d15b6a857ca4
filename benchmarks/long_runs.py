"""Sessions far longer than a window: runs of agents chained one after another, recorded ones or made here from a seed.

A made run is a task, steps that read, search, run and edit, and an answer. Some of its calls use a string that stands
in one earlier result only; these are its needles.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count as numbers
from pathlib import Path

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from benchmarks.contents import content_of
from benchmarks.prompts import render
from benchmarks.traces import AGENT, Needle, Recorded, Run, read_needles, read_runs

__all__ = ["LongRun", "chained", "made_runs", "recorded_runs"]

_TOOLS = {
    "source code": ("read_file", "path"),
    "search in files": ("shell", "command"),
    "test log": ("shell", "command"),
    "service log": ("shell", "command"),
    "JSON": ("get_record", "record_id"),
    "Markdown page": ("open_page", "url"),
    "CSV": ("query_database", "query"),
    "diff": ("edit_file", "path"),
}
_NAMES = re.compile(r"\b(?:[a-z]+/[a-z]+/[a-z_]+\.py|[0-9a-f]{12})\b")
_WISHES = (
    "Keep the public names as they are.",
    "The region is eu-central-1, not us-east-1.",
    "Report amounts in euros with two digits.",
    "Never write to the table of invoices.",
    "The deadline is Friday, 17:00.",
)
_STEPS, _LARGE, _USED_AGAIN = (8, 20), 0.3, 0.25


@dataclass(frozen=True)
class LongRun:
    """A run with the strings that its calls used of earlier results."""

    run: Run
    needles: tuple[Needle, ...] = ()


def recorded_runs(folder: Path, names: Iterable[str]) -> Iterator[LongRun]:
    """Yield the runs of recorded sets."""
    for name in names:
        needles = read_needles(folder, "needles", name)
        for run in read_runs(folder, name):
            yield LongRun(run, tuple(needles.get(run.id, ())))


def made_runs() -> Iterator[LongRun]:
    """Yield made runs, without end and always the same ones; a call may use what any earlier run has read."""
    names: list[tuple[int, str]] = []
    start = 0
    for seed in numbers():
        made = _Making(seed, start, names).run()
        start += len(made.run.messages)
        yield made


def chained(runs: Iterable[LongRun], tokens: int, count: Callable[[str], int]) -> LongRun:
    """Return one run of at least so many tokens, as long as there are runs; only the first system prompt counts."""
    messages: list[Recorded] = []
    needles: list[Needle] = []
    prompt, made, offset = None, 0, 0
    for one in runs:
        prompt = one.run.system_prompt if prompt is None else prompt
        for recorded in one.run.messages:
            messages.append(Recorded(recorded.message, tuple(offset + index for index in recorded.indexes)))
            made += render(recorded.message, count).tokens
        needles += (
            replace(needle, output_index=offset + needle.output_index, needed_index=offset + needle.needed_index)
            for needle in one.needles
        )
        offset = messages[-1].indexes[-1] + 1
        if made >= tokens:
            break
    return LongRun(Run(f"chained-{len(messages)}", prompt, tuple(messages)), tuple(needles))


@dataclass
class _Making:
    """Makes one run.

    Attributes:
        start: Messages of the runs before.
        names: Strings that stand in one result only, with its index among all messages.
    """

    seed: int
    start: int
    names: list[tuple[int, str]]
    messages: list[LLMMessage] = field(default_factory=list[LLMMessage])
    needles: list[Needle] = field(default_factory=list[Needle])

    def run(self) -> LongRun:
        draw = random.Random(f"long run {self.seed}")
        wish = draw.choice(_WISHES)
        self._add(UserMessage(content=f"{content_of('prose', 200, self.seed)}\n{wish}", source="user"))
        for number in range(draw.randint(*_STEPS)):
            self._step(number, draw)
        answer = f"Done. {content_of('prose', 400, (self.seed, 'answer'))}"
        self._add(AssistantMessage(content=answer, source=AGENT))
        recorded = tuple(Recorded(message, (index,)) for index, message in enumerate(self.messages))
        return LongRun(Run(f"made-{self.seed}", None, recorded), tuple(self.needles))

    def _step(self, number: int, draw: random.Random) -> None:
        kind = draw.choice([*_TOOLS])
        tool, argument = _TOOLS[kind]
        used = draw.choice(self.names) if self.names and draw.random() < _USED_AGAIN else None
        own = _NAMES.findall(content_of("search in files", 300, (self.seed, number)))[0]
        name = used[1] if used else own
        if used is not None:
            self.names.remove(used)
            self.needles.append(Needle(name, used[0] - self.start, len(self.messages)))
        value = {"shell": f"grep -rn {name} .", "open_page": f"https://docs.example.org/{name}"}.get(tool, name)
        value = f"SELECT * FROM events WHERE source = '{name}'" if tool == "query_database" else value
        call = FunctionCall(f"{self.seed}-{number}", json.dumps({argument: value}), tool)
        thought = content_of("prose", 150, (self.seed, number, "thought"))
        self._add(AssistantMessage(content=[call], thought=thought, source=AGENT))
        length = draw.randint(2_500, 14_000) if draw.random() < _LARGE else draw.randint(80, 1_500)
        content = content_of(kind, length, (self.seed, number))
        self.names += [(self.start + len(self.messages), one) for one in _NAMES.findall(content)[1:-1:7]]
        result = FunctionExecutionResult(content=content, name=tool, call_id=call.id, is_error=False)
        self._add(FunctionExecutionResultMessage(content=[result]))

    def _add(self, message: LLMMessage) -> None:
        self.messages.append(message)
