"""What the model saw in each call of a session, and what that cost: made again from the session's archive.

The archive has every message with its tokens and every decision in its order, and a view is a function of these. So it
is rendered again where the archive says that one was handed out. Nothing is written, and no content is read.

Not in an archive, and therefore assumed or left out: the prices of the session's policy, and whether results were shown
by their placeholders from the first view on (the defaults are assumed). Archives of earlier versions do not say either
how long an excerpt was, or a text that was withdrawn again: `Replay.reservations` tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from ..policy import ContextPolicy
from ..stats import ContextStats, UsageMeter
from ..store import Archived, StoredBatch
from ..tokens import default_token_counter
from ..transcript import (
    Decision,
    ExpansionShown,
    PartOffloaded,
    Transcript,
    ViewShown,
    joined_events,
    load_transcript,
)
from ..view import Renderer, View, stable_tokens

__all__ = ["ModelCall", "Replay", "replay"]


@dataclass(frozen=True)
class ModelCall:
    """One model call, in tokens of messages; system prompt and tool schemas are not counted.

    Attributes:
        number: From 1.
        at: When the newest message came that it read, in UTC; None if it read none.
        messages: How many messages the session had then.
        raw_tokens: What keeping everything would have sent.
        view_tokens: What was sent.
        stable_tokens: What of it stood unchanged at its head since the call before.
        mark: What was done to older messages before it: fold, compaction, or nothing.
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
    """A session as its archive tells it.

    Attributes:
        calls: Its model calls; the last one need not have been made if the view was only looked at.
        stats: The sums over them, and the decisions, and the light model's calls.
        transcript: The messages and decisions, without the texts that only the store has.
        views: What the last two calls were shown; empty ones if there were none.
        assumed_excerpts: Results whose first excerpt is counted with its limit.
        lost_expansions: Opened texts that are not counted, since they were withdrawn before they were archived.
        unread_batches: Numbers of batches that are not in all this: the first that is damaged or comes after a missing
            one, and those behind it.
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
        """What the figures do not know, in sentences; empty if they are as the session counted itself."""
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
    """Return what happened in a session, as far as its archive is whole.

    Args:
        archived: Its archive.
        policy: The settings it is assumed to have had.

    Raises:
        ValueError: A newer version archived it.
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
    """Renders a view wherever one was handed out, and adds them up as the context itself does."""

    def __init__(self, policy: ContextPolicy) -> None:
        self.calls: list[ModelCall] = []
        self.assumed_excerpts = 0
        self.lost_expansions = 0
        self._mark: Literal["", "compaction", "fold"] = ""
        self.meter = UsageMeter(Transcript(), policy)
        self._policy = policy
        self._renderer = Renderer(policy, default_token_counter())

    def watch(self, transcript: Transcript, decision: Decision) -> None:
        """See a decision take effect again."""
        match decision:
            case ViewShown():
                self._add_call(transcript, self._renderer.render(transcript))
            case PartOffloaded():
                self._restore_first_view(transcript, decision)
            case ExpansionShown(opened=opened, tokens=0) if opened:
                self.lost_expansions += 1
            case _:
                changes = decision.tally()
                if changes.get("folds"):
                    self._mark = "fold"
                elif changes.get("compactions"):
                    self._mark = self._mark or "compaction"

    def _restore_first_view(self, transcript: Transcript, decision: PartOffloaded) -> None:
        """Have a result shown as it was first: by as much as its excerpt took, or whole below its key.

        The texts of both may be dropped by the time they are archived.
        """
        if decision.position < transcript.first:
            return
        part = transcript[decision.position].part(decision.address)
        stored = part.stored
        was_read_whole = decision.position < transcript.state.consumed
        if stored is None or not stored.refs or stored.excerpt is not None or was_read_whole or not part.is_result:
            return
        tokens = stored.excerpt_tokens
        if not tokens and part.tokens > self._policy.result_limit_tokens:  # archived by an earlier version
            tokens = min(part.tokens, self._policy.excerpt_limit_tokens)
            self.assumed_excerpts += 1
        if 0 < tokens < part.tokens:  # else it was shown whole
            part.stored = replace(stored, excerpt="", excerpt_tokens=tokens)
            transcript[decision.position].touch()
        elif tokens > part.tokens:
            part.stored = replace(stored, headline=stored.refs[0].headline())
            transcript[decision.position].touch()

    def _add_call(self, transcript: Transcript, view: View) -> None:
        if not self.meter.add_view(transcript, view):
            return  # it was the same again
        before = self.meter.views[0]
        if self.calls and self.calls[-1].messages == transcript.end:
            self._mark = self.calls.pop().mark or self._mark  # something was added for it before it was made
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
