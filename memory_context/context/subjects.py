"""Observations as messages: a newer state of a subject supersedes the older one, and an equal one is said in a line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from autogen_core import Image
from autogen_core.models import LLMMessage, UserMessage

from ..connectors import Element, Noticed
from ..offload import WORTH_SUPERSEDING_TOKENS
from ..transcript import Entry, SubjectObserved, Transcript, subject_line
from ..utf8 import to_utf8

__all__ = ["append_noticed"]

_LEAST_CHARACTERS = 200  # of a text that a line replaces


def append_noticed(
    noticed: Noticed, transcript: Transcript, append: Callable[[LLMMessage], Entry], hide: Callable[[str], str]
) -> int | None:
    """Append what a connector noticed; return the position of the older observation that it supersedes, or None.

    Args:
        hide: Puts names in place of the user's secrets.
    """
    source, name = noticed.connector_id, f"{noticed.connector_id} {hide(noticed.subject)}"
    before = transcript.state.subjects.newest.get(name) if noticed.subject else None
    content = [*noticed.elements]
    text = hide("\n".join(one for one in content if isinstance(one, str)))
    digest = hashlib.sha256(to_utf8(text)).hexdigest()[:16]
    is_same = before is not None and len(text) >= _LEAST_CHARACTERS and _stands(transcript, before, digest)
    same_as = before if is_same else None
    if same_as is not None:
        line = subject_line(transcript, name, "unchanged since", same_as)
        content = [line, *(one for one in content if isinstance(one, Image))]
    entry = append(UserMessage(content=_joined(content), source=source))
    if not noticed.subject:
        return None
    older = before if same_as is None and before is not None and _is_worth_a_line(transcript, before) else None
    transcript.decide(SubjectObserved(entry.position, name, digest, older, same_as))
    return older


def _joined(elements: Sequence[Element]) -> str | list[str | Image]:
    if any(isinstance(one, Image) for one in elements):
        return [*elements]
    return "\n".join(one for one in elements if isinstance(one, str))


def _stands(transcript: Transcript, position: int, digest: str) -> bool:
    """Return whether a text stands in the view, whole or as its excerpt."""
    state = transcript.state
    if state.subjects.digests.get(position) != digest or state.is_hidden(position):
        return False
    parts = [(position, part.address) for part in transcript[position].measured if part.is_result]
    return bool(parts) and not any(part in state.compacted or part in state.shortened for part in parts)


def _is_worth_a_line(transcript: Transcript, position: int) -> bool:
    if transcript.state.is_hidden(position):
        return False
    parts = transcript[position].parts
    return parts is None or any(part.is_result and part.tokens > WORTH_SUPERSEDING_TOKENS for part in parts)
