"""Scripted observers and reflectors, and what they read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from autogen_core.models import LLMMessage

from memory_context.compaction.observation.observer import ObserverOutput, run_observer
from memory_context.compaction.observation.parsing import CompletionFunction
from memory_context.compaction.observation.reading import MessageOrigin, ObservedMessage
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.policy import ObservationPolicy
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLine, Priority

COUNTER = default_token_counter()
POLICY = ObservationPolicy()
START = datetime(2026, 11, 22, 14, 0, tzinfo=timezone.utc)

Answer = str | Completion | Exception


class Script:
    """A completion function that gives these answers in turn, the last one again and again.

    Attributes:
        prompts: What it was asked, system and user text; `limits` are the most answer tokens.
    """

    def __init__(self, *answers: Answer | Callable[[str], Answer]) -> None:
        self._answers = answers
        self.prompts: list[tuple[str, str]] = []
        self.limits: list[int] = []

    async def __call__(self, messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        system, asked = (str(message.content) for message in messages)
        answer = self._answers[min(len(self.prompts), len(self._answers) - 1)]
        self.prompts.append((system, asked))
        self.limits.append(limit_tokens)
        given = answer(asked) if callable(answer) else answer
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, Completion) else Completion(given, False, 100, 10)


def said(position: int, text: str, origin: MessageOrigin = "user", **changes: Any) -> ObservedMessage:
    """Return a message, one a minute."""
    at = START + timedelta(minutes=position)
    source = {"user": "user", "agent": "assistant", "tool": "read_file", "other": "planner"}[origin]
    message = ObservedMessage(position, source, origin, at, text, COUNTER.count(text))
    return replace(message, **changes)


def line(number: int, text: str, priority: Priority = "project", **changes: Any) -> ObservationLine:
    """Return a line of the log about the message with its number."""
    at = START + timedelta(minutes=number)
    return replace(ObservationLine(text, ((number, number + 1),), at, priority, id=number), **changes)


def chunk(*lines: ObservationLine, size: int = 10) -> ObservationChunk:
    """Return a chunk about the messages of its lines."""
    first = lines[0].ranges[0][0] // size * size
    made = ObservationChunk(first, max(first + size, lines[-1].ranges[-1][1]), lines)
    return replace(made, tokens=COUNTER.count(made.text))


async def observe(
    complete: CompletionFunction | None, messages: Sequence[ObservedMessage], **changes: Any
) -> ObserverOutput:
    """Run the observer over messages."""
    given: dict[str, Any] = {
        "first": messages[0].position if messages else 0,
        "last": messages[-1].position + 1 if messages else 0,
        "previous": "",
        "instructions": "",
        "counter": COUNTER,
        "light_window_tokens": 32_000,
        "now": START + timedelta(days=1),
    }
    return await run_observer(complete, messages, **(given | changes))


def texts(output: ObserverOutput, kind: str = "observed") -> list[str]:
    """Return the texts of an output's lines of a kind."""
    return [one.text for one in output.lines if one.kind == kind]
