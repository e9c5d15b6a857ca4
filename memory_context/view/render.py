"""Rendering of a transcript as a view, a pure function of transcript and policy.

A missing result is replaced by a synthetic error; a result without its call becomes a user message.
"""

from collections.abc import Iterator, Set

from autogen_core.models import (
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)

from memory_context.foundation.messages import (
    MEMORY_SOURCE,
    Address,
    calls_of,
    interrupted_result,
    results_of,
    source_of,
    with_texts,
)
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import MESSAGE_OVERHEAD_TOKENS, Entry, Part
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import Fold

from .sections import PLACES, first_folded, history_slots, sections_beside
from .view import TAIL_PLACE, MessageList, PartState, Segment, View, ViewMessage

__all__ = ["Renderer", "current_task", "render", "text_in_view", "unmasked_in_view"]


def current_task(transcript: Transcript, policy: ContextPolicy) -> int | None:
    """Return the position of the current task, or None."""
    return transcript.task(policy.user_sources)


def text_in_view(
    transcript: Transcript, policy: ContextPolicy, entry: Entry, part: Part
) -> tuple[PartState, str | None, int]:
    """Return state, text and tokens of a part in the view; text None: the message's own."""
    state, text, tokens = unmasked_in_view(transcript, policy, entry, part)
    masked = transcript.state.masked.get((entry.position, part.address))
    if masked is not None and state != "placeholder":
        shown = entry.text(part.address) if text is None else text
        if shown is not None and len(shown) == masked.characters:
            return state, masked.masked(shown), masked.tokens
    return state, text, tokens


def unmasked_in_view(
    transcript: Transcript, policy: ContextPolicy, entry: Entry, part: Part
) -> tuple[PartState, str | None, int]:
    """As `text_in_view`, with credentials."""
    part_id = (entry.position, part.address)
    state = transcript.state
    if part.stored is not None and part_id in state.compacted:
        return "placeholder", part.stored.compacted, part.stored.compacted_tokens
    if part_id in state.shortened:
        shortened = state.shortened[part_id]
        return "shortened", shortened.text, shortened.tokens
    if part.stored is not None and part.is_result:
        # the agent looked these up: shown whole once
        if part.stored.refs and policy.first_view_of(entry.tool_of(part.address)) == "placeholder":
            return "placeholder", part.stored.compacted, part.stored.compacted_tokens
        if part.stored.excerpt is not None:
            return "excerpt", part.stored.excerpt, part.stored.excerpt_tokens
        if part.stored.headline:
            content = entry.text(part.address)  # None if the transcript was read without the store
            return "full", content and part.stored.below_headline(content), part.stored.excerpt_tokens
    return "full", None, part.tokens


def render(transcript: Transcript, policy: ContextPolicy, counter: TokenCounter) -> View:
    """Return the view of a measured transcript, deterministic to the byte."""
    return Renderer(policy, counter).render(transcript)


class Renderer:
    """Renders views incrementally, with the result of a full rendering.

    A fold, a clear, or a changed `SystemMessage` rebuilds the list; else only new and `touched` entries are rendered.
    """

    def __init__(self, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._policy = policy
        self._counter = counter
        self._begin(None)

    def _begin(self, transcript: Transcript | None) -> None:
        self._transcript = transcript
        self._read = 0  # index into `touched`
        self._end = 0  # entries before it are rendered
        self._frame: tuple[int, Fold | None, int, tuple[int, ...]] = (0, None, 0, ())
        self._said_by_system: set[str] = set()
        self._messages = MessageList()

    def render(self, transcript: Transcript) -> View:
        if transcript is not self._transcript:
            self._begin(transcript)
        touched = self._touched(transcript)
        state = transcript.state
        frame = state.start, state.fold, state.observation.left, state.observation.kept
        is_same_frame = frame == self._frame
        if is_same_frame and not any(_is_system(transcript[one]) for one in touched):
            for position in sorted(touched):
                self._replace(transcript, position)
            self._extend(transcript)
        else:
            self._frame = frame
            self._assemble(transcript, touched)
        self._end = transcript.end
        for place, messages in sections_beside(transcript, self._policy, self._counter).items():
            self._messages.replace(*self._messages.places(PLACES[place]), messages)
        return self._messages.newest()

    def _touched(self, transcript: Transcript) -> set[int]:
        """Results stand at their calls."""
        touched: set[int] = set()
        for position in dict.fromkeys(transcript.touched[self._read :]):
            places = (position, *transcript.calls_answered_by(transcript[position]))
            touched.update(place for place in places if place < self._end)
        self._read = len(transcript.touched)
        return touched

    def _replace(self, transcript: Transcript, position: int) -> None:
        if position < self._frame[0] or transcript.state.is_away(position):
            return
        self._messages.replace(*self._messages.places(position), list(self._block(transcript, position)))

    def _extend(self, transcript: Transcript) -> None:
        positions = range(max(self._end, self._frame[0]), transcript.end)
        added = [message for position in positions for message in self._block(transcript, position)]
        end = self._messages.places(TAIL_PLACE)[0]
        self._messages.replace(end, end, added)

    def _assemble(self, transcript: Transcript, touched: Set[int]) -> None:
        kept: dict[int, list[ViewMessage]] = {}
        for message in self._messages.messages:
            kept.setdefault(message.place, []).append(message)
            if message.segments[:1] and message.segments[0].kind == "fold":
                del kept[message.place]
        self._said_by_system = set()
        messages: list[ViewMessage] = []
        for position in _places(transcript):
            is_kept = position in kept and position not in touched and not transcript.state.is_away(position)
            if is_kept and not _is_system(transcript[position]):
                messages += kept[position]
            else:
                messages += self._block(transcript, position)
        begin, end = self._messages.places(0)[0], self._messages.places(TAIL_PLACE)[0]
        self._messages.replace(begin, end, messages)

    def _block(self, transcript: Transcript, position: int) -> Iterator[ViewMessage]:
        if position in transcript.state.redelivered:
            return
        if not transcript.state.is_away(position):
            yield from self._entry(transcript, transcript[position])
        yield from history_slots(transcript, self._policy, self._counter, position)

    def _entry(self, transcript: Transcript, entry: Entry) -> Iterator[ViewMessage]:
        message = entry.message
        if isinstance(message, FunctionExecutionResultMessage):
            yield from self._orphans(transcript, entry)
        elif not isinstance(message, SystemMessage) or entry.dropped:
            yield from self._message(transcript, entry)
        elif message.content not in self._said_by_system:
            self._said_by_system.add(message.content)
            yield from self._message(transcript, entry)

    def _message(self, transcript: Transcript, entry: Entry) -> Iterator[ViewMessage]:
        yield self._whole_message(transcript, entry)
        if calls_of(entry.message):
            yield self._answers(transcript, entry)

    def _whole_message(self, transcript: Transcript, entry: Entry) -> ViewMessage:
        source = source_of(entry.message) or "system"
        calls = calls_of(entry.message)
        texts: dict[Address, str] = {}
        segments: list[Segment] = []
        for part in entry.measured:
            name = calls[part.address.index].name if part.address.kind == "arguments" else source
            segments.append(self._segment(transcript, entry, part, name, texts))
        return ViewMessage(
            entry.position,
            with_texts(entry.message, texts) if texts else entry.message,
            MESSAGE_OVERHEAD_TOKENS + sum(segment.tokens for segment in segments),
            tuple(segments),
            entry.position,
        )

    def _answers(self, transcript: Transcript, entry: Entry) -> ViewMessage:
        results: list[FunctionExecutionResult] = []
        segments: list[Segment] = []
        answers = transcript.pairing.answers[entry.position]
        for index, (call, answer) in enumerate(zip(calls_of(entry.message), answers, strict=True)):
            if answer is None:
                result = interrupted_result(call)
                tokens = sum(map(self._counter.count, (result.content, call.name, call.id)))
                segment = Segment(entry.position, call.name, "result", index, "interrupted", tokens, tokens)
            else:
                result, segment = self._result(transcript, *answer)
            results.append(result)
            segments.append(segment)
        return ViewMessage(
            segments[-1].position,
            FunctionExecutionResultMessage(content=results),
            MESSAGE_OVERHEAD_TOKENS + sum(segment.tokens for segment in segments),
            tuple(segments),
            entry.position,
        )

    def _orphans(self, transcript: Transcript, entry: Entry) -> Iterator[ViewMessage]:
        """Models refuse results without a call, so these become user messages."""
        for index in transcript.pairing.orphans.get(entry.position, ()):
            result, segment = self._result(transcript, entry.position, index)
            yield ViewMessage(
                entry.position,
                UserMessage(content=f"{result.name} returned:\n{result.content}", source=MEMORY_SOURCE),
                MESSAGE_OVERHEAD_TOKENS + segment.tokens + self._counter.count(f" returned:\n{MEMORY_SOURCE}"),
                (segment,),
                entry.position,
            )

    def _result(self, transcript: Transcript, position: int, index: int) -> tuple[FunctionExecutionResult, Segment]:
        entry = transcript[position]
        result = results_of(entry.message)[index]
        texts: dict[Address, str] = {}
        address = Address("result", index)
        segment = self._segment(transcript, entry, entry.part(address), result.name, texts)
        return FunctionExecutionResult.model_construct(
            content=texts.get(address, result.content),
            name=result.name,
            call_id=result.call_id,
            is_error=result.is_error,
        ), segment

    def _segment(
        self, transcript: Transcript, entry: Entry, part: Part, source: str, texts: dict[Address, str]
    ) -> Segment:
        state, text, tokens = text_in_view(transcript, self._policy, entry, part)
        if text is not None:
            texts[part.address] = text
        return Segment(
            entry.position,
            source,
            part.address.kind,
            part.address.index,
            state,
            tokens + part.overhead_tokens,
            part.tokens + part.overhead_tokens,
            tuple(ref.key for ref in part.stored.refs) if part.stored else (),
        )


def _places(transcript: Transcript) -> Iterator[int]:
    kept, begin = transcript.state.frame
    fold = transcript.state.fold
    if fold is not None and (place := first_folded(transcript, fold)) < begin:
        kept = sorted({*kept, place})
    yield from kept
    yield from range(begin, transcript.end)


def _is_system(entry: Entry) -> bool:
    return isinstance(entry.message, SystemMessage)
