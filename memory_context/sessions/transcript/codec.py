"""A transcript as JSON; loading replays its decisions."""

import sys
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from memory_context.foundation.messages import Address, message_from_json, message_to_json, with_texts
from memory_context.foundation.utf8 import escape_json, unescape_json

from .entries import Entry, Part
from .observation_decisions import ObservationBuffered, ObservationsActivated, ObservationsRestored, Reflected
from .observations import ObservationLog
from .part_decisions import PartsCompacted
from .state import TranscriptState
from .transcript import Decision, Transcript, decision_from_json
from .view_decisions import ViewCleared, ViewShown

__all__ = [
    "LOG_DECISIONS",
    "STATE_VERSION",
    "append_saved",
    "count_saved_decisions",
    "joined_events",
    "last_clear",
    "load_log",
    "load_transcript",
    "save_events",
    "save_transcript",
    "saved_events",
]

STATE_VERSION = 2
LOG_DECISIONS = tuple(
    one.kind for one in (ObservationBuffered, ObservationsActivated, ObservationsRestored, Reflected, ViewCleared)
)
"""Kinds of decisions that the observation log follows from."""
_UNREFERRED = "[This text is stored, but what referred to it is missing; a search finds it.]"

_PART: TypeAdapter[Part] = TypeAdapter(Part)
_ADDRESS: TypeAdapter[Address] = TypeAdapter(Address)

_Logged = tuple[int, Decision]


def save_transcript(transcript: Transcript, *, with_cleared: bool = False) -> dict[str, Any]:
    """Return the transcript since its last clear; committed content is references only.

    `with_cleared` adds cleared messages still in memory.
    """
    first = transcript.first if with_cleared else transcript.state.start
    return _saved(transcript, first, _kept(transcript, with_cleared))


def save_events(transcript: Transcript, first_position: int, first_decision: int) -> dict[str, Any]:
    """Return later events, with all that a view showed; all entries must be measured."""
    log, first = transcript.log[first_decision:], transcript.first
    return _saved(transcript, first_position, _concerning(log, first, for_each_view=True), for_each_view=True)


def joined_events(stretches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join consecutive results of `save_events`.

    Raises:
        LookupError: One does not begin where the one before ends.
    """
    first, *others = stretches
    entries, decisions = [*first["entries"]], [*first["decisions"]]
    for one in others:
        if one["first_position"] != first["first_position"] + len(entries):
            raise LookupError(f"messages are missing before number {one['first_position'] + 1}")
        entries += one["entries"]
        decisions += one["decisions"]
    return {**first, "entries": entries, "decisions": decisions}


def count_saved_decisions(transcript: Transcript, first_decision: int, *, with_cleared: bool = False) -> int:
    """Count saved decisions before a log number."""
    before = {id(decision) for _, decision in transcript.log[:first_decision]}
    return sum(id(decision) in before for _, decision in _kept(transcript, with_cleared))


def last_clear(transcript: Transcript) -> int:
    """Return the last clear's log number, or -1."""
    return max((number for number, _ in transcript.decisions(ViewCleared)), default=-1)


def _kept(transcript: Transcript, with_cleared: bool) -> list[tuple[int, Decision]]:
    first, log = transcript.state.start, transcript.log
    if with_cleared:
        return _concerning(log, transcript.first)
    cleared = last_clear(transcript)
    return _concerning([one for number, one in enumerate(log) if one[1].outlives_clear or number > cleared], first)


def _concerning(log: Sequence[_Logged], first: int, *, for_each_view: bool = False) -> list[_Logged]:
    """Drop replaced decisions and those only about entries before `first`; `for_each_view` keeps what a view showed."""
    return [
        (at, one)
        for (at, one), later in _backwards(log, for_each_view)
        if (one.slot() is None or (one.kind, one.slot()) not in later)
        and (not one.positions() or any(position >= first for position in one.positions()))
    ][::-1]


def _backwards(
    log: Sequence[_Logged], for_each_view: bool
) -> Iterator[tuple[_Logged, Container[tuple[str, Hashable]]]]:
    """Yield decisions with the slots that later ones take; `for_each_view`: those before the next view."""
    later, in_no_view = set[tuple[str, Hashable]](), set[tuple[str, Hashable]]()
    for at, one in reversed(log):
        if for_each_view and isinstance(one, ViewShown):
            later = {*in_no_view}
        yield (at, one), later
        if one.slot() is not None:
            later.add((one.kind, one.slot()))
            in_no_view |= set() if one.stands_in_views else {(one.kind, one.slot())}


def _saved(
    transcript: Transcript, first_position: int, decisions: Sequence[_Logged], *, for_each_view: bool = False
) -> dict[str, Any]:
    pairs = _backwards(decisions, for_each_view)
    return {
        "version": STATE_VERSION,
        "first_position": first_position,
        "entries": [_entry_to_json(entry) for entry in transcript.entries(start=first_position)],
        "decisions": [[at, escape_json(one.to_json(transcript, later))] for (at, one), later in pairs][::-1],
    }


def load_transcript(saved: Mapping[str, Any]) -> Transcript:
    """Return a saved transcript, without texts of committed results.

    Raises:
        ValueError: A newer version saved the data, or it is damaged.
    """
    version = saved.get("version")
    if version not in (1, STATE_VERSION):
        raise ValueError(f"this state has version {version!r}; this memory_context reads versions 1 to {STATE_VERSION}")
    try:
        transcript = _replayed(saved)
        if version == 1 and transcript.state.answered_whole:  # answers compacted results then
            transcript.decide(PartsCompacted(tuple(sorted(transcript.state.answered_whole)), "late"))
        return transcript
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"this is no saved transcript, or it was cut: {error!r}") from error


def load_log(saved: Iterable[Mapping[str, Any]]) -> ObservationLog:
    """Return the observation log that saved decisions of `LOG_DECISIONS` made, without their messages."""
    decisions = [decision_from_json(unescape_json(one)) for one in saved]
    transcript = _LogOnly()
    transcript.begin_at(next((first for one in decisions if (first := _first_observed(one)) is not None), 0))
    for decision in decisions:
        decision.apply(transcript)
    return transcript.state.observation


class _LogOnly(Transcript):
    @property
    def end(self) -> int:
        return sys.maxsize

    def begin_at(self, position: int) -> None:
        self.state = TranscriptState.at(position)

    def leave_view(self, positions: Iterable[int]) -> None: ...


def _first_observed(decision: Decision) -> int | None:
    if isinstance(decision, ObservationBuffered):
        return decision.chunk.first
    chunks = decision.log.chunks + decision.log.buffered if isinstance(decision, ObservationsRestored) else []
    return chunks[0].first if chunks else None


def append_saved(transcript: Transcript, saved: Mapping[str, Any]) -> None:
    """Append a saved stretch that follows a gap: what it decided about messages before itself is decided anew.

    Raises:
        ValueError: The data is damaged, or does not begin where the transcript ends.
    """
    first = transcript.end
    try:
        entries, decisions = _parsed(saved, first)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no saved transcript, or it was cut: {error!r}") from error
    if saved["first_position"] != first:
        raise ValueError(f"message {saved['first_position'] + 1} does not follow message {first}")
    _replay(transcript, entries, [one for one in decisions if min(one[1].positions(), default=first) >= first])
    for entry in entries:
        lost = [part.address for part in entry.measured if part.stored is None and part.address in entry.dropped]
        entry.restore_texts(dict.fromkeys(lost, _UNREFERRED))


def saved_events(saved: Mapping[str, Any]) -> Iterator[Entry | tuple[int, Decision]]:
    """Yield the entries and decisions of a saved transcript in the order in which they came."""
    first = saved["first_position"]
    return _in_order(*_parsed(saved, first), first)


def _replayed(saved: Mapping[str, Any]) -> Transcript:
    transcript = Transcript(first_position=saved["first_position"])
    _replay(transcript, *_parsed(saved, transcript.end))
    return transcript


def _parsed(saved: Mapping[str, Any], end: int) -> tuple[list[Entry], list[tuple[int, Decision]]]:
    decisions = [(at, decision_from_json(unescape_json(data))) for at, data in saved["decisions"]]
    return [_entry_from_json(data, end + number) for number, data in enumerate(saved["entries"])], decisions


def _replay(transcript: Transcript, entries: Sequence[Entry], decisions: Sequence[_Logged]) -> None:
    for event in _in_order(entries, decisions, transcript.end):
        if isinstance(event, Entry):
            transcript.take(event)
        else:
            transcript.replay(*event)


def _in_order(entries: Sequence[Entry], decisions: Sequence[_Logged], end: int) -> Iterator[Entry | _Logged]:
    """Yield entries and decisions as they came, behind so many entries."""
    upcoming = 0
    for number, entry in enumerate([*entries, None], end):
        while upcoming < len(decisions) and (entry is None or decisions[upcoming][0] <= number):
            yield decisions[upcoming]
            upcoming += 1
        if entry is not None:
            yield entry


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    # loading fetches committed content, but of arguments only the strings are committed
    in_store = {
        part.address for part in entry.measured if part.stored and part.stored.refs and part.address.kind != "arguments"
    }
    kept = entry.unarchived or {}
    missing = (in_store | entry.dropped) - kept.keys()
    return {
        "message": message_to_json(with_texts(entry.message, {**dict.fromkeys(missing, ""), **kept})),
        "added_at": entry.added_at.isoformat(),
        "carries_result": entry.carries_result,
        "parts": None if entry.parts is None else [_part_to_json(part) for part in entry.parts],
        "missing": [dict(vars(address)) for address in sorted(missing)],
    }


def _part_to_json(part: Part) -> dict[str, Any]:
    kept = {name: value for name, value in vars(part).items() if name != "stored"}
    return {**kept, "address": dict(vars(part.address))}  # asdict takes ten times as long


def _entry_from_json(data: Mapping[str, Any], position: int) -> Entry:
    entry = Entry(
        position,
        message_from_json(data["message"]),
        datetime.fromisoformat(data["added_at"]),
        carries_result=data["carries_result"],
        dropped={_ADDRESS.validate_python(address) for address in data["missing"]},
    )
    if data["parts"] is not None:
        entry.measure([_PART.validate_python(part) for part in data["parts"]])
    return entry
