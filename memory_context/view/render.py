"""The view: what the model sees, rendered from transcript and policy alone.

For each part exactly one *state* is in force (`text_in_view`); a message is its parts in these states. Calls and
results are paired here: a call whose result never came gets one that says so, a result without its call is told as a
user message, folded entries are one placeholder. Nothing here decides anything: what is compacted or folded was
decided before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from autogen_core.models import (
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ..messages import (
    Address,
    PartKind,
    calls_of,
    copy_message,
    interrupted_result,
    results_of,
    source_of,
    with_texts,
)
from ..policy import ContextPolicy
from ..tokens import TokenCounter
from ..transcript import Entry, Expanded, Folded, Part, PartId, Transcript
from ..transcript.entries import MESSAGE_OVERHEAD_TOKENS

__all__ = [
    "MEMORY_SOURCE",
    "PartState",
    "Renderer",
    "Segment",
    "View",
    "ViewMessage",
    "current_task",
    "render",
    "text_in_view",
]

_Kept = dict[tuple[int, bool], tuple[object, "ViewMessage"]]

MEMORY_SOURCE = "memory"
"""Source of the messages that the context itself adds to a view."""

PartState = Literal["full", "excerpt", "placeholder", "shortened", "folded", "interrupted", "expanded"]


@dataclass(frozen=True)
class Segment:
    """One rendered text of a view.

    Attributes:
        position: Position of its entry in the transcript; of a fold, of the first entry behind it.
        source: Who said it: a source, or a tool's name.
        kind: result, text, thought, arguments, image, fold or expansion.
        index: Which part of that kind it is in its message.
        state: How it is shown: full; excerpt; placeholder (compacted); shortened (to fit the budget); folded;
            interrupted (a result that never came); expanded (brought back from the store).
        tokens: What it takes, names and ids included.
        full_tokens: What the whole content takes.
        keys: The items it refers to.
        why: Of an expansion: why each item is there.
        owner: Of an expansion: which it is of those that stand after one message.
    """

    position: int
    source: str
    kind: PartKind | Literal["fold", "expansion"]
    index: int
    state: PartState
    tokens: int
    full_tokens: int
    keys: tuple[str, ...] = ()
    why: str = ""
    owner: str = ""

    @property
    def part(self) -> PartId | None:
        """The part it shows; None for a fold, an expansion, and a result that never came."""
        if self.kind in ("fold", "expansion") or self.state == "interrupted":
            return None
        return self.position, Address(self.kind, self.index)

    @property
    def expansion_place(self) -> tuple[int, str]:
        """Of an expansion: what tells it from others in force."""
        return self.position, self.owner

    @property
    def place(self) -> tuple[int, str, int]:
        """What tells it from the other segments of a view."""
        return self.position, self.kind, self.index


@dataclass(frozen=True)
class ViewMessage:
    """One message of a view, private to it, with its segments.

    Attributes:
        position: Position of the entry it was rendered from.
        message: What the model sees. Copy before handing out.
        tokens: Tokens of the whole message, its overhead and images included.
    """

    position: int
    message: LLMMessage
    tokens: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class View:
    """A rendered view."""

    messages: tuple[ViewMessage, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of all messages."""
        return sum(message.tokens for message in self.messages)

    def copies(self) -> list[LLMMessage]:
        """Return messages to hand out: nothing in them is shared with the view."""
        return [copy_message(message.message) for message in self.messages]


def current_task(transcript: Transcript, policy: ContextPolicy) -> int | None:
    """Return the position of the current task: the user's latest word, else the first message to the agent; or None."""
    return transcript.task(policy.user_sources)


def text_in_view(
    transcript: Transcript, policy: ContextPolicy, entry: Entry, part: Part
) -> tuple[PartState, str | None, int]:
    """Return the state of a part, the text shown for it (None if it is the message's own), and that text's tokens."""
    part_id = (entry.position, part.address)
    standing = transcript.standing
    if part.stored is not None and part_id in standing.compacted:
        return "placeholder", part.stored.compacted, part.stored.compacted_tokens
    if part_id in standing.shortened:
        shortened = standing.shortened[part_id]
        return "shortened", shortened.text, shortened.tokens
    if part.stored is not None and part.is_result:
        if policy.shown_first == "placeholder" and part.stored.refs:  # what it looked up itself is to be read once
            return "placeholder", part.stored.compacted, part.stored.compacted_tokens
        if part.stored.excerpt is not None:
            return "excerpt", part.stored.excerpt, part.stored.excerpt_tokens
    return "full", None, part.tokens


def render(transcript: Transcript, policy: ContextPolicy, counter: TokenCounter) -> View:
    """Return the view of a measured transcript: the same bytes for the same events and policy."""
    return Renderer(policy, counter).render(transcript)


class Renderer:
    """Renders views. Messages are kept until their entry changes; what is returned is as if nothing were kept."""

    def __init__(self, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._policy = policy
        self._counter = counter
        self._kept: _Kept = {}
        self._before: _Kept = {}

    def render(self, transcript: Transcript) -> View:
        """Return the view of a measured transcript."""
        self._before, self._kept = self._kept, {}
        return View(tuple(self._messages(transcript)))

    def _messages(self, transcript: Transcript) -> Iterator[ViewMessage]:
        standing = transcript.standing
        fold_is_due = True
        said_by_system: set[str] = set()
        expanded: dict[int, list[Expanded]] = {}
        for one in sorted(standing.expanded.values(), key=lambda one: one.origin == "memory"):
            expanded.setdefault(one.position, []).append(one)
        for entry in transcript.entries():
            if standing.is_folded(entry.position):
                if standing.fold is not None and fold_is_due:
                    yield self._fold_message(standing.fold, entry.position)
                    fold_is_due = False
                continue
            if entry.position in standing.redelivered:
                continue
            message = entry.message
            if isinstance(message, FunctionExecutionResultMessage):
                yield from self._orphans(transcript, entry)
            elif not isinstance(message, SystemMessage) or entry.dropped:
                yield from self._message(transcript, entry)
            elif message.content not in said_by_system:
                said_by_system.add(message.content)
                yield from self._message(transcript, entry)
            for number, one in enumerate(expanded.get(entry.position, ())):
                yield self._expansion(one, number)

    def _message(self, transcript: Transcript, entry: Entry) -> Iterator[ViewMessage]:
        """Render a message, with the results of its calls."""
        yield self._keep((entry.position, False), (entry, entry.revision), self._whole_message, transcript, entry)
        if calls_of(entry.message):
            answers = transcript.pairing.answers[entry.position]
            state = [entry, *((answer, answer and transcript[answer[0]].revision) for answer in answers)]
            yield self._keep((entry.position, True), state, self._answers, transcript, entry)

    def _keep(
        self,
        place: tuple[int, bool],
        state: object,
        make: Callable[[Transcript, Entry], ViewMessage],
        transcript: Transcript,
        entry: Entry,
    ) -> ViewMessage:
        kept = self._before.get(place)
        if kept is None or kept[0] != state:
            kept = (state, make(transcript, entry))
        self._kept[place] = kept
        return kept[1]

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
        )

    def _answers(self, transcript: Transcript, entry: Entry) -> ViewMessage:
        """Render the results of an entry's calls, in the order of the calls, one for each."""
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
        )

    def _orphans(self, transcript: Transcript, entry: Entry) -> Iterator[ViewMessage]:
        """Tell results whose call is not in the view as words of the memory: models refuse a result without a call."""
        for index in transcript.pairing.orphans.get(entry.position, ()):
            result, segment = self._result(transcript, entry.position, index)
            yield ViewMessage(
                entry.position,
                UserMessage(content=f"{result.name} returned:\n{result.content}", source=MEMORY_SOURCE),
                MESSAGE_OVERHEAD_TOKENS + segment.tokens + self._counter.count(f" returned:\n{MEMORY_SOURCE}"),
                (segment,),
            )

    def _fold_message(self, fold: Folded, position: int) -> ViewMessage:
        tokens = fold.tokens + self._counter.count(MEMORY_SOURCE)
        keys = (fold.ref.key,)
        return ViewMessage(
            position,
            UserMessage(content=fold.text, source=MEMORY_SOURCE),
            MESSAGE_OVERHEAD_TOKENS + tokens,
            (Segment(position, MEMORY_SOURCE, "fold", 0, "folded", tokens, fold.ref.token_count, keys),),
        )

    def _expansion(self, expanded: Expanded, number: int) -> ViewMessage:
        tokens = expanded.tokens + self._counter.count(MEMORY_SOURCE)
        why = "; ".join(f"{opened.key}: {opened.why}" for opened in expanded.opened)
        keys = tuple(opened.key for opened in expanded.opened)
        segment = Segment(
            expanded.position,
            MEMORY_SOURCE,
            "expansion",
            number,
            "expanded",
            tokens,
            tokens,
            keys,
            why,
            owner=expanded.place[1],
        )
        return ViewMessage(
            expanded.position,
            UserMessage(content=expanded.text, source=MEMORY_SOURCE),
            MESSAGE_OVERHEAD_TOKENS + tokens,
            (segment,),
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
        """Describe how a part is shown; put its text into `texts` if it is not what the message says itself."""
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
