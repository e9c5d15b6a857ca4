"""Model calls of a session and their costs, replayed from its archive. Reads no content, writes nothing.

Prices, and early placeholders of results, are not archived: defaults stand in. Archives of earlier versions lack some
lengths (`Replay.reservations`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memory_context.context.stats import ContextStats, UsageMeter
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.codec import joined_events, load_transcript
from memory_context.sessions.transcript.decisions import Decision
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.part_decisions import FirstViewChosen, PartOffloaded
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ExpansionShown, ViewShown
from memory_context.store.conversation_rows import Archived, StoredBatch
from memory_context.view.explain import stable_tokens
from memory_context.view.render import Renderer
from memory_context.view.view import View

__all__ = ["ModelCall", "Replay", "replay"]


@dataclass(frozen=True)
class ModelCall:
    """One model call, in tokens of messages; system prompt and tool schemas are not counted.

    Attributes:
        number: From 1.
        at: Time of its newest message, in UTC.
        messages: Messages of the session by then.
        raw_tokens: Tokens that keeping everything would have sent.
        view_tokens: Tokens sent.
        stable_tokens: Tokens at its head that are unchanged since the call before.
        mark: Change to older messages before it, if any.
    """

    number: int
    at: datetime | None
    messages: int
    raw_tokens: int
    view_tokens: int
    stable_tokens: int
    mark: Literal["", "compaction", "fold"]


@dataclass(frozen=True)
class Replay:
    """A session, replayed.

    Attributes:
        calls: Its model calls; the last view may have been rendered without a call.
        stats: Sums over calls and decisions, and the calls of the light model.
        transcript: Messages and decisions, without texts kept only in the store.
        views: The last two views.
        assumed_excerpts: First excerpts counted with their limit.
        lost_expansions: Opened texts not counted, as they were withdrawn before archiving.
        unread_batches: Numbers of batches from the first damaged or missing one on.
    """

    calls: tuple[ModelCall, ...]
    stats: ContextStats
    transcript: Transcript
    views: tuple[View, View]
    assumed_excerpts: int = 0
    lost_expansions: int = 0
    unread_batches: tuple[int, ...] = ()

    @property
    def reservations(self) -> list[str]:
        """Sentences on omissions from the figures; empty if they are exact."""
        said: list[str] = []
        if self.assumed_excerpts:
            said.append(f"first excerpts that are counted with their limit: {self.assumed_excerpts}")
        if self.lost_expansions:
            said.append(f"opened texts that are not counted, as they were not archived in time: {self.lost_expansions}")
        if self.unread_batches:
            numbers = ", ".join(map(str, self.unread_batches))
            said.append(f"batches {numbers} are not counted: they are damaged, or come after what is missing")
        return said


def replay(archived: Archived, policy: ContextPolicy) -> Replay:
    """Return a session replayed as far as its archive is whole.

    Raises:
        ValueError: It was archived by a newer version.
    """
    batches = _whole(archived.batches)
    watcher = _Watcher(policy)
    transcript = Transcript()
    if batches:
        transcript = load_transcript(_joined(batches), watcher.watch)
    return Replay(
        calls=tuple(watcher.calls),
        stats=watcher.meter.stats(transcript, 0),
        transcript=transcript,
        views=watcher.meter.views,
        assumed_excerpts=watcher.assumed_excerpts,
        lost_expansions=watcher.lost_expansions,
        unread_batches=tuple(batch.sequence for batch in archived.batches[len(batches) :]),
    )


def _whole(batches: Sequence[StoredBatch]) -> list[StoredBatch]:
    kept: list[StoredBatch] = []
    for batch in batches:
        is_next = batch.sequence == kept[-1].sequence + 1 if kept else batch.sequence == 0 or batch.begins_anew
        if not is_next or not batch.is_intact:
            break
        kept.append(batch)
    return kept


def _joined(batches: Sequence[StoredBatch]) -> dict[str, Any]:
    try:
        return joined_events([batch.body for batch in batches])
    except (LookupError, TypeError) as error:
        raise ValueError(f"the archive of this session cannot be read: {error!r}") from error


class _Watcher:
    """Renders archived views again and meters them as the context does."""

    def __init__(self, policy: ContextPolicy) -> None:
        self.calls: list[ModelCall] = []
        self._assumed: set[PartId] = set()
        self.lost_expansions = 0
        self._mark: Literal["", "compaction", "fold"] = ""
        self.meter = UsageMeter(Transcript(), policy)
        self._policy = policy
        self._renderer = Renderer(policy, default_token_counter())

    @property
    def assumed_excerpts(self) -> int:
        return len(self._assumed)

    def watch(self, transcript: Transcript, decision: Decision) -> None:
        match decision:
            case ViewShown():
                self._add_call(transcript, self._renderer.render(transcript))
            case PartOffloaded():
                self._restore_first_view(transcript, decision)
            case FirstViewChosen():
                self._assumed.discard((decision.position, decision.address))
                self._restore_first_view(transcript, decision)
            case ExpansionShown(opened=opened, tokens=0) if opened:
                self.lost_expansions += 1
            case _:
                changes = decision.tally()
                if changes.get("folds"):
                    self._mark = "fold"
                elif changes.get("compactions"):
                    self._mark = self._mark or "compaction"

    def _restore_first_view(self, transcript: Transcript, decision: PartOffloaded | FirstViewChosen) -> None:
        """Count a result's first tokens; its excerpt or headline may be gone."""
        if decision.position < transcript.first:
            return
        part = transcript[decision.position].part(decision.address)
        stored = part.stored
        was_read_whole = decision.position < transcript.state.consumed
        if stored is None or not stored.refs or stored.excerpt is not None or was_read_whole or not part.is_result:
            return
        tokens = stored.excerpt_tokens
        if not tokens and part.tokens > self._policy.result_limit_tokens:  # earlier versions archived no length
            tokens = min(part.tokens, self._policy.excerpt_limit_tokens)
            self._assumed.add((decision.position, decision.address))
        if 0 < tokens < part.tokens:  # else it was shown whole
            part.stored = replace(stored, excerpt="", excerpt_tokens=tokens)
            transcript[decision.position].touch()
        elif tokens > part.tokens:
            part.stored = replace(stored, headline=stored.refs[0].headline())
            transcript[decision.position].touch()

    def _add_call(self, transcript: Transcript, view: View) -> None:
        if not self.meter.add_view(transcript, view):
            return  # the same view
        before = self.meter.views[0]
        if self.calls and self.calls[-1].messages == transcript.end:
            self._mark = self.calls.pop().mark or self._mark  # replaced before it was sent
        newest = transcript.entries(start=max(transcript.end - 1, transcript.first))
        self.calls.append(
            ModelCall(
                number=len(self.calls) + 1,
                at=newest[-1].added_at if newest else None,
                messages=transcript.end,
                raw_tokens=transcript.full_tokens(transcript.state.start, transcript.end),
                view_tokens=view.tokens,
                stable_tokens=stable_tokens(before, view),
                mark=self._mark,
            )
        )
        self._mark = ""
