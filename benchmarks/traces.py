"""Recorded agent runs as the messages AutoGen's AssistantAgent would have put into its context.

A set is a file `<set>.jsonl`, one run a line: `{"id", "messages": [{"role", "content", "tool_calls", "tool_call_id",
"name"}, …]}`. Beside it may stand `needles/<set>.jsonl` and `needles_now/<set>.jsonl`: strings of one tool output
(`output_message`) that a later call (`needed_at`) used; both are indexes into the run's messages.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

__all__ = ["Needle", "Recorded", "Run", "read_needles", "read_runs", "set_names"]

AGENT = "assistant"


@dataclass(frozen=True)
class Recorded:
    """One message for the context, with the indexes it had in the trace: several for parallel tool results."""

    message: LLMMessage
    indexes: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes:
        id: Its name in the trace.
        system_prompt: The agent's own; no part of the context.
        messages: Everything after it, in order. Before each `AssistantMessage` the model was called.
    """

    id: str
    system_prompt: str | None
    messages: tuple[Recorded, ...]


@dataclass(frozen=True)
class Needle:
    """A string that stood in one tool output only and that a later call used.

    Attributes:
        output_index: Index of the tool message in the trace.
        needed_index: Index of the assistant message whose call used it.
    """

    text: str
    output_index: int
    needed_index: int


def set_names(folder: Path) -> list[str]:
    """Return the names of the sets in a folder."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def read_runs(folder: Path, name: str, limit: int | None = None) -> Iterator[Run]:
    """Yield the runs of a set, at most `limit`."""
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if limit is not None and number >= limit:
                return
            trace = json.loads(line)
            yield _run(trace["id"], trace["messages"])


def read_needles(folder: Path, kind: str, name: str) -> dict[str, list[Needle]]:
    """Return the needles of a set by run; none if it has no file of this kind (`needles` or `needles_now`)."""
    path = folder / kind / f"{name}.jsonl"
    needles: dict[str, list[Needle]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            needle = Needle(row["needle"], row["output_message"], row["needed_at"])
            needles.setdefault(row["trajectory"], []).append(needle)
    return needles


def _run(run_id: str, trace: Sequence[Mapping[str, Any]]) -> Run:
    own = 1 if trace and trace[0]["role"] == "system" else 0
    recorded: list[Recorded] = []
    names: dict[str, str] = {}  # tool by call id, newest call first come
    for role, group in groupby(enumerate(trace[own:], start=own), key=lambda pair: pair[1]["role"]):
        messages = list(group)
        if role == "tool":
            recorded.append(_results(messages, names))
            continue
        for index, message in messages:
            names |= {call["id"]: call["name"] for call in message.get("tool_calls") or ()}
            recorded.append(Recorded(_message(message), (index,)))
    return Run(run_id, trace[0]["content"] if own else None, tuple(recorded))


def _message(message: Mapping[str, Any]) -> LLMMessage:
    text: str = message.get("content") or ""
    if message["role"] == "user":
        return UserMessage(content=text, source="user")
    if message["role"] == "system":
        return SystemMessage(content=text)
    calls = [
        FunctionCall(id=call["id"], name=call["name"], arguments=call["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    if calls:
        return AssistantMessage(content=calls, thought=text or None, source=AGENT)
    return AssistantMessage(content=text, source=AGENT)


def _results(messages: Sequence[tuple[int, Mapping[str, Any]]], names: Mapping[str, str]) -> Recorded:
    # The traces do not say whether a call failed. AutoGen says False for every tool that returned a text, also when
    # that text tells of an error, so that is what is played.
    results = [
        FunctionExecutionResult(
            content=message["content"] or "",
            name=message.get("name") or names.get(message["tool_call_id"], "tool"),
            call_id=message["tool_call_id"],
            is_error=False,
        )
        for _, message in messages
    ]
    return Recorded(FunctionExecutionResultMessage(content=results), tuple(index for index, _ in messages))
