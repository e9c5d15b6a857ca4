"""What a compactor is told of the agent's work: read from the transcript, free of AutoGen's types."""

from autogen_core.models import AssistantMessage

from ..compaction import Hint, Result, is_document, unwrapped
from ..messages import results_of, source_of, texts_of
from ..policy import ContextPolicy
from ..tokens import TokenCounter
from ..transcript import Entry, Part, Transcript
from .known import KnownText

__all__ = ["told_of"]

_SAID_CHARACTERS = 8_000
_TASK_CHARACTERS = 16_000

_EXCERPT_OVERHEAD_TOKENS = 115
"""Room in a first view for the status, the placeholder and the line above an excerpt."""
_HEADLINE_TOKENS = 80
"""The most that the line above a first view takes: a key has up to 64 characters."""
_FACTS_SHARE_OF_EXCERPT = 0.15
"""Of an excerpt's room: names in what is left out say more for their tokens than further lines would."""


def told_of(
    transcript: Transcript,
    entry: Entry,
    part: Part,
    text: str,
    policy: ContextPolicy,
    counter: TokenCounter,
    *,
    is_answered: bool,
    known: KnownText | None,
    names_key: bool = False,
) -> tuple[Result, Hint]:
    """Return a result, or the output of code, as compactors take it, and what is known of the agent's work.

    Args:
        transcript: The transcript.
        entry: The part's entry.
        part: The part.
        text: What it says.
        policy: Limits.
        counter: Counts tokens.
        is_answered: Whether facts are wanted, for good; else an excerpt, if the part is too long to be shown whole,
            and beside it facts about the rest.
        known: What facts need not say; None if that does not matter.
        names_key: Whether a first view that is whole has a line above it, which counts towards its limit.
    """
    result = _result_of(transcript, entry, part, text)
    first_view = policy.first_view_of(result.source)
    facts_are_wanted = is_answered or first_view == "placeholder"
    facts_limit = policy.compaction.facts_limit_tokens if facts_are_wanted else 0
    excerpt_limit = 0
    if not is_answered:
        if first_view == "excerpt":
            excerpt_limit = min(policy.offload_threshold_tokens, policy.excerpt_limit_tokens)
        else:
            first_tokens = part.tokens + (_HEADLINE_TOKENS if names_key else 0)
            if first_tokens > policy.whole_limit_tokens(result.source, lambda: _is_document(text)):
                excerpt_limit = policy.excerpt_limit_tokens
    if excerpt_limit:
        facts_limit = min(policy.compaction.facts_limit_tokens, int(excerpt_limit * _FACTS_SHARE_OF_EXCERPT))
        excerpt_limit = max(excerpt_limit - facts_limit - _EXCERPT_OVERHEAD_TOKENS, 1)
    hint = Hint(
        task=_task(transcript, policy)[:_TASK_CHARACTERS],
        said=_said(transcript, range(entry.position - 1, transcript.state.start - 1, -1)),
        answer=_said(transcript, range(entry.position + 1, transcript.end)) if is_answered else "",
        known=str(known) if known is not None and facts_limit else "",
        facts_limit_tokens=facts_limit,
        excerpt_limit_tokens=excerpt_limit,
        counter=counter,
        masks_credentials=policy.mask_credentials,
    )
    return result, hint


def _is_document(content: str) -> bool:
    """Whether most of a content is a text that is meant to be read; beside a text, an MCP result may hold images."""
    text = unwrapped(content).text
    return len(text) * 2 > len(content) and is_document(text)


def _result_of(transcript: Transcript, entry: Entry, part: Part, text: str) -> Result:
    tool = entry.tool_of(part.address)
    if part.address.kind != "result":
        return Result(text, tool, token_count=part.tokens)
    call = transcript.call_answered_by(entry.position, part.address.index)
    is_error = results_of(entry.message)[part.address.index].is_error
    if call is None:
        return Result(text, tool, "", is_error, part.tokens)
    called_at = transcript[transcript.pairing.callers[entry.position, part.address.index][0]].added_at
    seconds = max((entry.added_at - called_at).total_seconds(), 0.0)  # AutoGen reports none
    return Result(text, tool, call.arguments, is_error, part.tokens, seconds)


def _task(transcript: Transcript, policy: ContextPolicy) -> str:
    """Return the current task, and the first one if it is another."""
    current = transcript.task(policy.user_sources)
    positions = range(transcript.state.start, transcript.end)
    first = next((position for position in positions if source_of(transcript[position].message)), current)
    both = [position for position in dict.fromkeys([current, first]) if position is not None]
    return "\n".join(_words(transcript[position]) for position in both)


def _said(transcript: Transcript, positions: range) -> str:
    """Return what the first assistant message at these positions says and calls with."""
    for position in positions:
        if isinstance(transcript[position].message, AssistantMessage):
            return _words(transcript[position])[:_SAID_CHARACTERS]
    return ""


def _words(entry: Entry) -> str:
    return "\n".join(text for address, text in texts_of(entry.message) if address not in entry.dropped)
