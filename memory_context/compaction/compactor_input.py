"""The input of compactors: a result and a hint on the agent's work, without AutoGen's types."""

from collections.abc import Iterable
from dataclasses import replace

from autogen_core.models import AssistantMessage

from memory_context.foundation.compactors.analyzers.wrapper import unwrapped
from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.names import mentioned_names
from memory_context.foundation.messages import results_of, source_of, texts_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.text.documents import is_document
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import Entry, Part, PartId
from memory_context.sessions.transcript.state import RunningSums
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["FACTS_LIMIT_TOKENS", "CompactorInput", "KnownNames"]

FACTS_LIMIT_TOKENS = 280
"""The most that stays of a result beside its placeholder.

Of 86 strings that later calls needed 69 stood in the view, with 120 tokens 59 and with 400 72 at .010 of the cost.
"""

_KNOWN_CHARACTERS = 400_000
_SAID_CHARACTERS = 8_000
_TASK_CHARACTERS = 16_000
_MOST_RESULTS = 64
"""Results with an analysis: more unanswered ones are analysed again."""

_EXCERPT_OVERHEAD_TOKENS = 115
"""Room in a first view for the status, the placeholder and the line above an excerpt."""
_HEADLINE_TOKENS = 80
"""Maximum for the line above a first view; a key has up to 64 characters."""
_FACTS_SHARE_OF_EXCERPT = 0.15
"""Share of an excerpt for facts about its omitted text: they say more per token than more lines."""


class CompactorInput:
    """Reads the input of compactors from one transcript."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._known = KnownNames(transcript, policy)
        self._results: dict[PartId, Result] = {}

    def for_item(self, entry: Entry, part: Part, text: str) -> tuple[Result, Hint]:
        """Return the input of status and description; with facts if no view shows more than a placeholder."""
        result = self._result(entry, part, text)
        is_placeholder = self._policy.first_view_of(result.source) == "placeholder"
        return result, self._hint(entry, FACTS_LIMIT_TOKENS if is_placeholder else 0)

    def for_first_view(self, entry: Entry, part: Part, text: str, *, names_key: bool) -> tuple[Result, Hint]:
        """Return the input of a first view; its excerpt limit is 0 for a result that is shown whole.

        Args:
            names_key: A line above a whole first view counts towards its limit.
        """
        result = self._result(entry, part, text)
        return result, self._excerpt_hint(entry, self._excerpt_limit(result, names_key))

    def for_excerpt(self, entry: Entry, part: Part, text: str) -> tuple[Result, Hint]:
        """Return the input of an excerpt, also of a text that a first view may show whole; it is not kept."""
        result = self._new_result(entry, part, text)
        limit = self._excerpt_limit(result, names_key=False) or self._policy.excerpt_limit_tokens
        return result, self._excerpt_hint(entry, limit)

    def for_facts(self, entry: Entry, part: Part, text: str) -> tuple[Result, Hint]:
        """Return the input of the facts that stay for good."""
        answer = self._said(range(entry.position + 1, self._transcript.end))
        hint = self._hint(entry, FACTS_LIMIT_TOKENS)
        return self._result(entry, part, text), replace(hint, answer=answer)

    def may_be_long(self, entry: Entry, part: Part) -> bool:
        """Return whether a result may exceed the limit of a whole first view, without reading it."""
        source = entry.tool_of(part.address)
        is_excerpt = self._policy.first_view_of(source) == "excerpt"
        return is_excerpt or not self._policy.shows_whole(source, part.tokens, lambda: False)

    def forget(self, parts: Iterable[PartId]) -> None:
        """Drop what was found out about these results."""
        for part in parts:
            self._results.pop(part, None)

    def _excerpt_hint(self, entry: Entry, limit: int) -> Hint:
        facts_limit = min(FACTS_LIMIT_TOKENS, int(limit * _FACTS_SHARE_OF_EXCERPT))
        return self._hint(entry, facts_limit, limit and max(limit - facts_limit - _EXCERPT_OVERHEAD_TOKENS, 1))

    def _hint(self, entry: Entry, facts_limit: int, excerpt_limit: int = 0) -> Hint:
        position, is_read = entry.position, facts_limit or excerpt_limit
        return Hint(
            task=self._task()[:_TASK_CHARACTERS] if is_read else "",
            said=self._said(range(position - 1, self._transcript.state.start - 1, -1)) if is_read else "",
            known=self._known.all() if facts_limit else (),
            facts_limit_tokens=facts_limit,
            excerpt_limit_tokens=excerpt_limit,
            counter=self._counter,
        )

    def _excerpt_limit(self, result: Result, names_key: bool) -> int:
        """Return tokens; 0 for a result that can be shown whole."""
        policy = self._policy
        if policy.first_view_of(result.source) == "excerpt":
            return min(policy.offload_threshold_tokens, policy.excerpt_limit_tokens)
        tokens = result.token_count + (_HEADLINE_TOKENS if names_key else 0)
        is_whole = policy.shows_whole(result.source, tokens, lambda: _is_document(result.content))
        return 0 if is_whole else policy.excerpt_limit_tokens

    def _result(self, entry: Entry, part: Part, text: str) -> Result:
        """Return the result of a part, always the same until it is forgotten: it carries its analysis."""
        part_id = entry.position, part.address
        if (result := self._results.get(part_id)) is None or result.content != text:
            if len(self._results) >= _MOST_RESULTS:
                self._results.pop(next(iter(self._results)))
            result = self._results[part_id] = self._new_result(entry, part, text)
        return result

    def _new_result(self, entry: Entry, part: Part, text: str) -> Result:
        tool = entry.tool_of(part.address)
        if part.address.kind != "result":
            return Result(text, tool, token_count=part.tokens)
        transcript, index = self._transcript, part.address.index
        call = transcript.call_answered_by(entry.position, index)
        is_error = results_of(entry.message)[index].is_error
        if call is None:
            return Result(text, tool, "", is_error, part.tokens)
        called_at = transcript[transcript.pairing.callers[entry.position, index][0]].added_at
        seconds = max((entry.added_at - called_at).total_seconds(), 0.0)  # AutoGen reports none
        return Result(text, tool, call.arguments, is_error, part.tokens, seconds)

    def _task(self) -> str:
        transcript = self._transcript
        current = transcript.task(self._policy.user_sources)
        positions = range(transcript.state.start, transcript.end)
        first = next((position for position in positions if source_of(transcript[position].message)), current)
        both = [position for position in dict.fromkeys([current, first]) if position is not None]
        return "\n".join(_words(transcript[position]) for position in both)

    def _said(self, positions: range) -> str:
        for position in positions:
            if isinstance(self._transcript[position].message, AssistantMessage):
                return _words(self._transcript[position])[:_SAID_CHARACTERS]
        return ""


class KnownNames:
    """The names in the newest lasting text of the view, which need not be kept."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript = transcript
        self._policy = policy
        self._names: list[frozenset[str]] = []
        self._lengths = RunningSums()
        self._read = 0
        self._state = (0, 0)
        self._all: frozenset[str] = frozenset()

    def all(self) -> frozenset[str]:
        """Return those of the newest 400,000 characters."""
        state = (len(self._transcript.touched), self._transcript.state.start)
        if state != self._state:
            self._state, self._all = state, self._newest()
        return self._all

    def _newest(self) -> frozenset[str]:
        transcript, lengths = self._transcript, self._lengths
        for position in dict.fromkeys(transcript.touched[self._read :]):
            text = self._text_of(transcript[position])
            if position == transcript.first + len(self._names):
                self._names.append(frozenset())
            self._names[position - transcript.first] = mentioned_names(text)
            lengths.put(position - transcript.first, len(text))
        self._read = len(transcript.touched)
        start, fold = transcript.state.history_start - transcript.first, transcript.state.fold
        count = len(self._names)
        first = max(start, lengths.count_within(lengths.before(count) - _KNOWN_CHARACTERS - 1, count))
        folded = mentioned_names(fold.text) if fold is not None and first == start else ()
        return frozenset[str]().union(folded, *self._names[first:])

    def _text_of(self, entry: Entry) -> str:
        state = self._transcript.state
        if state.is_hidden(entry.position):
            return ""
        texts: list[str] = []
        for part in entry.measured:
            if part.address.kind == "image":
                continue
            if (entry.position, part.address) in state.compacted and part.stored is not None:
                texts.append(part.stored.compacted)
            elif part.address not in entry.dropped and not (
                part.is_result and part.tokens > self._policy.offload_threshold_tokens
            ):
                texts.append(entry.text(part.address) or "")
        return "\n".join(texts)


def _is_document(content: str) -> bool:
    """Return whether it is mostly a document; an MCP result may hold images."""
    text = unwrapped(content).text
    return len(text) * 2 > len(content) and is_document(text)


def _words(entry: Entry) -> str:
    return "\n".join(text for address, text in texts_of(entry.message) if address not in entry.dropped)
