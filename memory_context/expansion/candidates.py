"""What a transcript has on offer for a turn: the user's words, the last answer, the references and what is in sight."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from autogen_core.models import AssistantMessage, UserMessage

from ..messages import source_of, texts_of
from ..policy import ContextPolicy
from ..transcript import Entry, ExpansionShown, HistoryFolded, Part, Transcript
from .keys import named_keys
from .models import CandidateReference, ExpansionRequest

__all__ = ["candidate_references", "expansion_request", "known_to_agent", "text_of", "visible_texts"]


def expansion_request(transcript: Transcript, asked: Sequence[Entry], policy: ContextPolicy) -> ExpansionRequest:
    """Return what is to be decided about these entries, which nobody has answered yet.

    What came with them is part of the request: it is no reference on offer, and nothing that was in sight before.
    """
    first = min(entry.position for entry in asked)
    before = transcript.entries(end=first)
    answer = next((entry for entry in reversed(before) if isinstance(entry.message, AssistantMessage)), None)
    return ExpansionRequest(
        request="\n".join(text_of(entry) for entry in asked),
        last_answer=text_of(answer) if answer is not None else "",
        references=tuple(candidate_references(transcript, first, policy)),
        visible_text=lambda: visible_texts(transcript, (entry for entry in before if entry is not answer), policy),
    )


def candidate_references(transcript: Transcript, end: int, policy: ContextPolicy) -> Iterator[CandidateReference]:
    """Yield the references of the messages before a position, the newest first, each once; at last the fold's."""
    seen: set[str] = set()
    for entry in reversed(transcript.entries(end=end)):
        if entry.position in transcript.state.redelivered:
            continue
        for part in entry.measured:
            for ref in part.stored.refs if part.stored else ():
                if ref.key not in seen:
                    seen.add(ref.key)
                    yield CandidateReference(
                        ref,
                        source=source_of(entry.message) or "",
                        kept_text=part.stored.compacted if part.stored else "",
                        messages_ago=end - entry.position,
                        is_visible=_is_visible(transcript, entry, part, policy),
                    )
    if fold := transcript.state.fold:
        yield CandidateReference(fold.ref, source="memory", kept_text=fold.text, messages_ago=end - fold.upto + 1)


def known_to_agent(transcript: Transcript, keys: Collection[str], end: int) -> set[str]:
    """Return which of these keys the agent was given: opened in its view, a fold's, or named by a user or a hand-off.

    Keys of other sessions are not on offer, but an expansion may have shown them. Text of tools and pages gives none.
    """
    given: set[str] = set()
    for _, decision in transcript.log:
        if isinstance(decision, ExpansionShown):
            given.update(opened.key for opened in decision.opened)
        elif isinstance(decision, HistoryFolded):
            given.add(decision.ref.key)
    for entry in transcript.entries(end=end):
        if isinstance(entry.message, UserMessage) and not entry.carries_result:
            given.update(named_keys(text_of(entry), keys))
    return given.intersection(keys)


def text_of(entry: Entry) -> str:
    """Return what a message says, without calls and results."""
    return "\n".join(text for address, text in texts_of(entry.message) if address.kind == "text")


def visible_texts(transcript: Transcript, entries: Iterable[Entry], policy: ContextPolicy) -> Iterator[str]:
    """Yield the texts of these entries that the view shows in full, and what is opened."""
    for entry in entries:
        for part in entry.measured:
            if part.address.kind != "image" and _is_visible(transcript, entry, part, policy):
                yield entry.text(part.address) or ""
    for expanded in transcript.state.expanded.values():
        yield expanded.text


def _is_visible(transcript: Transcript, entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    """Whether the view shows the whole of a part."""
    state, part_id = transcript.state, (entry.position, part.address)
    is_first_shown = part.stored is None or not part.is_result
    if not is_first_shown and policy.first_view_of(entry.tool_of(part.address)) == "placeholder":
        return False
    is_cut = part_id in state.shortened or (part.stored is not None and part.stored.excerpt is not None)
    is_gone = state.is_hidden(entry.position) or part_id in state.compacted or part.address in entry.dropped
    return not is_cut and not is_gone
