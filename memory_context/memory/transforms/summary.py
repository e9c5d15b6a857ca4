"""The summary of a content: a model's, else the compacted content within a larger limit."""

from dataclasses import replace

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.excerpt import (
    ELISION_TOKENS,
    FIRST_ELISION_TOKENS,
    Passage,
    render_passages,
)
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.compactors.summary_prompt import cut_at_sentence
from memory_context.foundation.text.documents import is_document
from memory_context.foundation.tokens import cut_to_tokens

from .slicing import LEAST_ROOM_TOKENS, Cut, Slicer, call_text

__all__ = ["summarize"]

_FACTS_SHARE, _FACTS_SHARE_OF_DOCUMENT = 0.5, 0.15
"""Share of the limit for facts and names; documents need more passages."""
_NEXT_LINES, _NEXT_CHARACTERS = 50, 4_000  # most of the first gap that the footer's call opens
_BY_MODEL = "A model wrote this summary; the whole content is one retrieve_memory call away."
_COMPACTORS = Compactors()


def summarize(slicer: Slicer, limit_tokens: int, model_summary: str | None = None) -> Cut:
    """Return the summary of a content; a content within the limit stays whole.

    Args:
        slicer: Its limit covers the answer with footer.
        limit_tokens: Limit of the summary without footer.

    Raises:
        ValueError: The slicer's limit has no room for the footer.
    """
    limit = limit_tokens if slicer.limit is None else min(limit_tokens, slicer.limit)
    if not slicer.counter.is_over(slicer.content, limit):
        return Cut(slicer.content, True, "all of")
    text, footer = _by_model(slicer, model_summary, limit) if model_summary else _extract(slicer, limit)
    return Cut(slicer.within_limit(text, footer), False, "summary of")


def _by_model(slicer: Slicer, summary: str, limit: int) -> tuple[str, str]:
    footer = _footer(slicer, call_text(slicer.key, "full", {}))
    room = _room(slicer, limit, footer) - slicer.counter.count(_BY_MODEL + "\n") - 1
    return f"{_BY_MODEL}\n{cut_at_sentence(summary, max(room, LEAST_ROOM_TOKENS), slicer.counter)}", footer


def _extract(slicer: Slicer, limit: int) -> tuple[str, str]:
    """Return the compacted text, and the footer that opens the first gap."""
    content, counter = slicer.content, slicer.counter
    longest = _footer(slicer, slicer.call_for(len(content) // 2, len(content)))
    limit = _room(slicer, limit, longest)
    share = _FACTS_SHARE_OF_DOCUMENT if is_document(content) else _FACTS_SHARE
    result = Result(content, "", token_count=slicer.token_count)
    hint = Hint(counter=counter, masks_credentials=False)  # the reader may see the whole content
    facts = replace(hint, facts_limit_tokens=int(limit * share), excerpt_limit_tokens=0)
    kept = _COMPACTORS.compact(result, facts)
    text = f"{kept.description}\n{kept.facts}".rstrip("\n")
    room = limit - counter.count(text) + FIRST_ELISION_TOKENS - ELISION_TOKENS  # here the first gap costs no more
    kept = _COMPACTORS.compact(result, replace(hint, facts_limit_tokens=0, excerpt_limit_tokens=room))
    passages = list(kept.excerpt or ())
    if passages:
        text += "\n" + render_passages(content, passages, labels=kept.labels)
    if counter.is_over(text, limit):
        text = cut_to_tokens(text, limit, counter)
    return text, _footer(slicer, _call_for_first_gap(slicer, passages))


def _room(slicer: Slicer, limit: int, footer: str) -> int:
    if slicer.limit is None:
        return limit
    return max(min(limit, slicer.limit - slicer.counter.count("\n" + footer)), LEAST_ROOM_TOKENS)


def _footer(slicer: Slicer, call: str) -> str:
    return f'[summary of {slicer.described()}. Next: {call}, or transform="filtered" with a pattern]'


def _call_for_first_gap(slicer: Slicer, passages: list[Passage]) -> str:
    content = slicer.content
    start = passages[0].end if passages and passages[0].start == 0 else 0
    if content[start : start + 1] == "\n" and content[start - 1 : start] != "\n":
        start += 1
    start = start if start < len(content) else 0
    end = min(len(content), start + _NEXT_CHARACTERS)
    last = start - 1
    for _ in range(_NEXT_LINES):
        last = content.find("\n", last + 1, end)
        if last < 0:
            break
    else:
        return slicer.call_for(start, last + 1)
    line_end = content.rfind("\n", start, end) + 1
    return slicer.call_for(start, end if end == len(content) or line_end <= start else line_end)
