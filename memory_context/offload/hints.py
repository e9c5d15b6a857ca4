"""What a compactor is told of the agent's work: read from the transcript, free of AutoGen's types."""

from autogen_core.models import AssistantMessage

from ..compaction import Hint, Result
from ..messages import results_of, source_of, texts_of
from ..policy import ContextPolicy
from ..tokens import TokenCounter
from ..transcript import Entry, Part, Transcript
from .known import KnownText

__all__ = ["hint_for", "result_of"]

_SAID_CHARACTERS = 8_000
_TASK_CHARACTERS = 16_000

_EXCERPT_OVERHEAD_TOKENS = 100
"""Room in a first view for the status and the placeholder above an excerpt."""
_FACTS_SHARE_OF_EXCERPT = 0.15
"""Of an excerpt's room: names in what is left out say more for their tokens than further lines would."""


def result_of(transcript: Transcript, entry: Entry, part: Part, text: str) -> Result:
    """Return a part that is a tool's result, or the output of code, as compactors take it."""
    if part.address.kind != "result":
        return Result(text, source_of(entry.message) or "code", token_count=part.tokens)
    result = results_of(entry.message)[part.address.index]
    call = transcript.call_answered_by(entry.position, part.address.index)
    return Result(text, result.name or "tool", call.arguments if call else "", result.is_error, part.tokens)


def hint_for(
    transcript: Transcript,
    entry: Entry,
    part: Part,
    policy: ContextPolicy,
    counter: TokenCounter,
    *,
    is_answered: bool,
    known: KnownText | None,
) -> Hint:
    """Return what is known of the agent's work when this part is compacted.

    Args:
        transcript: The transcript.
        entry: The part's entry.
        part: The part.
        policy: Limits.
        counter: Counts tokens.
        is_answered: Whether facts are wanted, for good; else an excerpt, if the part is too long to be shown whole,
            and beside it facts about the rest.
        known: What facts need not say; None if that does not matter.
    """
    facts_are_wanted = is_answered or policy.shown_first == "placeholder"
    facts_limit = policy.compaction.facts_limit_tokens if facts_are_wanted else 0
    excerpt_limit = 0
    if not is_answered:
        if policy.shown_first == "excerpt":
            excerpt_limit = min(policy.offload_threshold_tokens, policy.excerpt_limit_tokens)
        elif part.tokens > policy.result_limit_tokens:
            excerpt_limit = policy.excerpt_limit_tokens
    if excerpt_limit:
        facts_limit = min(policy.compaction.facts_limit_tokens, int(excerpt_limit * _FACTS_SHARE_OF_EXCERPT))
        excerpt_limit = max(excerpt_limit - facts_limit - _EXCERPT_OVERHEAD_TOKENS, 1)
    return Hint(
        task=_task(transcript, policy)[:_TASK_CHARACTERS],
        said=_said(transcript, range(entry.position - 1, transcript.standing.start - 1, -1)),
        answer=_said(transcript, range(entry.position + 1, transcript.end)) if is_answered else "",
        known=str(known) if known is not None and facts_limit else "",
        facts_limit_tokens=facts_limit,
        excerpt_limit_tokens=excerpt_limit,
        counter=counter,
        masks_credentials=policy.mask_credentials,
    )


def _task(transcript: Transcript, policy: ContextPolicy) -> str:
    """Return the current task, and the first one if it is another."""
    current = transcript.task(policy.user_sources)
    positions = range(transcript.standing.start, transcript.end)
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
