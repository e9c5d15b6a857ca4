"""The observer: dated lines about a range of messages, by a light model.

Code decides what is not left to a model: which messages a line rests on, whose words it holds, and which facts stay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from memory_context.foundation.errors import LightModelError
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.observations import ObservationLine, ObservationRecord

from .attribution import attributed, checked_hint
from .facts import fact_lines
from .parsing import CompletionFunction, ModelCalls, ObserverAnswer, parsed_observations
from .prompts import OBSERVER_INSTRUCTIONS, messages_text, observer_prompt
from .reading import ObservedMessage

__all__ = ["PREVIOUS_TOKENS", "ObserverOutput", "run_observer"]

PREVIOUS_TOKENS = 2_000
"""The most of the log that an observer reads, so that it repeats nothing."""

_ANSWER_SHARE, _LEAST_ANSWER, _MOST_ANSWER = 0.5, 400, 6_000  # of the observed tokens
_WINDOW_SHARE = 0.25  # of the light model's window, for its answer
_PREVIOUS_SHARE = 0.125  # of the same, for the log so far
_OVERHEAD_TOKENS, _HEADING_TOKENS, _SLICE_TOKENS = 120, 20, 10  # marks, date and hint; of a message; of a slice
_LEAST_ROOM = 200


@dataclass(frozen=True)
class ObserverOutput:
    """Lines and hints about `[first, last)`."""

    lines: tuple[ObservationLine, ...]
    current_task: str = ""
    suggested_response: str = ""
    record: ObservationRecord = field(default_factory=ObservationRecord)


async def run_observer(
    complete: CompletionFunction | None,
    messages: Sequence[ObservedMessage],
    *,
    first: int,
    last: int,
    previous: str,
    instructions: str,
    counter: TokenCounter,
    light_window_tokens: int,
    now: datetime,
) -> ObserverOutput:
    """Return the observations of messages.

    Messages that do not fit the light model's window together are observed in several calls, one huge message in
    slices.

    Args:
        messages: Those of `[first, last)` that are to be observed, in order.
        previous: The log so far; its end is shown to the model.

    Raises:
        LightModelError: There is no model, it failed, or answered nonsense twice.
    """
    run = _Run(ModelCalls(complete, counter), instructions, counter, light_window_tokens, now, previous)
    for batch in _batches(messages, run.room_tokens, counter):
        await run.observe(batch, first, last)
    size = sum(len(message.text) for message in messages)
    facts = await in_thread_if_large(size, lambda: fact_lines(messages, run.lines, counter, task=previous))
    record = replace(run.calls.record, input_tokens=sum(one.tokens for one in messages), facts_added=len(facts))
    record = replace(record, slices=len(run.answers))
    lines = tuple(sorted([*run.lines, *facts], key=lambda line: line.ranges[0][0]))
    hints = next((one for one in reversed(run.answers) if one.has_hints), ObserverAnswer(()))
    return ObserverOutput(
        lines,
        checked_hint(hints.current_task, messages),
        checked_hint(hints.suggested_response, messages),
        record,
    )


@dataclass
class _Run:
    """One run of the observer: lines so far, and what the model is told beside the messages."""

    calls: ModelCalls
    instructions: str
    counter: TokenCounter
    window_tokens: int
    now: datetime
    previous: str
    lines: list[ObservationLine] = field(default_factory=list[ObservationLine])
    answers: list[ObserverAnswer] = field(default_factory=list[ObserverAnswer])

    @property
    def room_tokens(self) -> int:
        """Tokens of messages that one call can read; 0 if the window is too small for an answer of any use."""
        told = self.counter.count(OBSERVER_INSTRUCTIONS) + self.counter.count(self.instructions)
        room = self.window_tokens - told - self._previous_tokens - self._most_answer - _OVERHEAD_TOKENS
        return room if room >= _LEAST_ROOM else 0

    @property
    def _previous_tokens(self) -> int:
        return min(PREVIOUS_TOKENS, int(_PREVIOUS_SHARE * self.window_tokens))

    @property
    def _most_answer(self) -> int:
        return min(_MOST_ANSWER, int(_WINDOW_SHARE * self.window_tokens))

    def _answer_tokens(self, batch: Sequence[ObservedMessage]) -> int:
        share = int(_ANSWER_SHARE * sum(message.tokens for message in batch))
        return min(max(share, _LEAST_ANSWER), self._most_answer)

    async def observe(self, batch: Sequence[ObservedMessage], first: int, last: int) -> None:
        answer = await self._asked(batch, first, last)
        self.answers.append(answer)
        known = self._log_end
        size = sum(len(message.text) for message in batch)
        self.lines += await in_thread_if_large(size, lambda: attributed(answer.lines, batch, known))

    async def _asked(self, batch: Sequence[ObservedMessage], first: int, last: int) -> ObserverAnswer:
        if not self.room_tokens:
            raise LightModelError(f"a window of {self.window_tokens} tokens is too small to observe")
        instruction = self.instructions
        prompt = partial(observer_prompt, messages_text(batch), self._log_end, instruction=instruction, now=self.now)

        def read(answer: str) -> ObserverAnswer | None:
            found = parsed_observations(answer, first, last)
            return found if found.lines else None

        return await self.calls.ask(prompt, read, self._answer_tokens(batch))

    @property
    def _log_end(self) -> str:
        new = (f"- {line.at.astimezone(timezone.utc):%H:%M} {line.text}" for line in self.lines)
        text = "\n".join([self.previous, *new])
        end = cut_to_tokens(text, self._previous_tokens, self.counter, side="end")
        return end if len(end) == len(text) else end.partition("\n")[2]


def _batches(
    messages: Sequence[ObservedMessage], room_tokens: int, counter: TokenCounter
) -> Iterator[list[ObservedMessage]]:
    """Yield runs of messages that fit together, a huge message in slices; all of them together without a limit."""
    batch: list[ObservedMessage] = []
    left = room_tokens
    for message in messages:
        for part in _slices(message, room_tokens - _HEADING_TOKENS, counter) if room_tokens else (message,):
            cost = part.tokens + _HEADING_TOKENS
            if batch and cost > left and room_tokens:
                yield batch
                batch, left = [], room_tokens
            batch.append(part)
            left -= cost
    if batch:
        yield batch


def _slices(message: ObservedMessage, limit_tokens: int, counter: TokenCounter) -> Iterator[ObservedMessage]:
    if message.tokens <= limit_tokens:
        yield message
        return
    texts: list[str] = []
    rest = message.text
    while rest:
        cut = cut_to_tokens(rest, limit_tokens - _SLICE_TOKENS, counter) or rest[:1]
        end = max(cut.rfind("\n"), cut.rfind(" ")) + 1
        if len(cut) < len(rest) and 2 * end > len(cut):
            cut = cut[:end]
        texts.append(cut)
        rest = rest[len(cut) :]
    for number, text in enumerate(texts, 1):
        text = f"(slice {number} of {len(texts)})\n{text}"
        yield replace(message, text=text, tokens=counter.count(text))
