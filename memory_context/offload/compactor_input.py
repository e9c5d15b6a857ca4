"""The input of compactors: a result and a hint on the agent's work, without AutoGen's types."""

from autogen_core.models import AssistantMessage

from ..compaction import Hint, Result, unwrapped
from ..messages import results_of, source_of, texts_of
from ..policy import ContextPolicy
from ..text import is_document
from ..tokens import TokenCounter
from ..transcript import Entry, Part, RunningSums, Transcript

__all__ = ["CompactorInput", "KnownText"]

_KNOWN_CHARACTERS = 400_000
_SAID_CHARACTERS = 8_000
_TASK_CHARACTERS = 16_000

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
        self._known = KnownText(transcript, policy)

    def read(
        self, entry: Entry, part: Part, text: str, *, is_answered: bool, names_key: bool = False
    ) -> tuple[Result, Hint]:
        """Return a result and a hint on the agent's work.

        Args:
            is_answered: Ask for the facts that stay for good, else for an excerpt of a long part.
            names_key: A line above a whole first view counts towards its limit.
        """
        result = self._result(entry, part, text)
        excerpt_limit = 0 if is_answered else self._excerpt_limit(result, names_key)
        facts_limit = self._policy.compaction.facts_limit_tokens
        if excerpt_limit:
            facts_limit = min(facts_limit, int(excerpt_limit * _FACTS_SHARE_OF_EXCERPT))
            excerpt_limit = max(excerpt_limit - facts_limit - _EXCERPT_OVERHEAD_TOKENS, 1)
        elif not is_answered and self._policy.first_view_of(result.source) != "placeholder":
            facts_limit = 0
        position = entry.position
        hint = Hint(
            task=self._task()[:_TASK_CHARACTERS],
            said=self._said(range(position - 1, self._transcript.state.start - 1, -1)),
            answer=self._said(range(position + 1, self._transcript.end)) if is_answered else "",
            known=str(self._known) if facts_limit else "",
            facts_limit_tokens=facts_limit,
            excerpt_limit_tokens=excerpt_limit,
            counter=self._counter,
            masks_credentials=self._policy.mask_credentials,
        )
        return result, hint

    def _excerpt_limit(self, result: Result, names_key: bool) -> int:
        """Return tokens; 0 for a result that can be shown whole."""
        policy = self._policy
        if policy.first_view_of(result.source) == "excerpt":
            return min(policy.offload_threshold_tokens, policy.excerpt_limit_tokens)
        tokens = result.token_count + (_HEADLINE_TOKENS if names_key else 0)
        is_whole = policy.shows_whole(result.source, tokens, lambda: _is_document(result.content))
        return 0 if is_whole else policy.excerpt_limit_tokens

    def _result(self, entry: Entry, part: Part, text: str) -> Result:
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


class KnownText:
    """The newest lasting text of the view: names in it need not be kept."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript = transcript
        self._policy = policy
        self._texts: list[str | None] = []
        self._lengths = RunningSums()
        self._read = 0
        self._state = (0, 0)
        self._text = ""

    def __str__(self) -> str:
        """Return its newest 400,000 characters."""
        state = (len(self._transcript.touched), self._transcript.state.start)
        if state != self._state:
            self._state, self._text = state, self._newest()
        return self._text

    def _newest(self) -> str:
        transcript, texts, lengths = self._transcript, self._texts, self._lengths
        for position in dict.fromkeys(transcript.touched[self._read :]):
            text = self._text_of(transcript[position])
            if position == transcript.first + len(texts):
                texts.append(None)
            texts[position - transcript.first] = text
            lengths.put(position - transcript.first, 0 if text is None else len(text) + 1)
        self._read = len(transcript.touched)
        start, fold = transcript.state.start - transcript.first, transcript.state.fold
        first = max(start, lengths.count_within(lengths.before(len(texts)) - _KNOWN_CHARACTERS - 1, len(texts)))
        known = [text for text in texts[first:] if text is not None]
        if fold is not None and first == start:
            known.insert(0, fold.text)
        return "\n".join(known)[-_KNOWN_CHARACTERS:]

    def _text_of(self, entry: Entry) -> str | None:
        state = self._transcript.state
        if state.is_hidden(entry.position):
            return None
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
        return "\n".join(texts) if texts else None


def _is_document(content: str) -> bool:
    """Return whether it is mostly a document; an MCP result may hold images."""
    text = unwrapped(content).text
    return len(text) * 2 > len(content) and is_document(text)


def _words(entry: Entry) -> str:
    return "\n".join(text for address, text in texts_of(entry.message) if address not in entry.dropped)
