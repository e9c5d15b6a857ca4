"""A transcript as JSON and back.

What is saved is what cannot be had elsewhere: messages without the texts the store has, and the decisions. Loading
replays the same events, so the standing (and with it the view) is the same as before, without being saved itself.
"""

from collections.abc import Container, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from ..escaping import escape_json, unescape_json
from ..messages import Address, message_from_json, message_to_json, with_texts
from .entries import Cleared, Decision, Entry, Offloaded, Part, PartId, PlannedCompaction, Retained
from .transcript import Transcript

__all__ = ["STATE_VERSION", "load_transcript", "save_transcript"]

STATE_VERSION = 2

_DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)
_PART: TypeAdapter[Part] = TypeAdapter(Part)


def save_transcript(transcript: Transcript) -> dict[str, Any]:
    """Return the transcript since its last clear, JSON-native; what is committed is references only."""
    first = transcript.standing.start
    log = transcript.log
    cleared = max((i for i, (_, decision) in enumerate(log) if isinstance(decision, Cleared)), default=-1)
    retained = [one for _, one in log if isinstance(one, Retained) and one.position >= first]
    chosen = {(one.position, one.address): one for one in retained}  # the last choice is the one in force
    return {
        "version": STATE_VERSION,
        "first_position": first,
        "entries": [_entry_to_json(entry) for entry in transcript.entries(start=first)],
        "decisions": [
            [at, escape_json(_decision_to_json(decision, transcript, chosen))]
            for number, (at, decision) in enumerate(log)
            if (
                decision is chosen.get((decision.position, decision.address))
                if isinstance(decision, Retained)
                else decision.position >= first  # a message may have come, and been stored, before the clear
                if isinstance(decision, Offloaded)
                else number > cleared
            )
        ],
    }


def load_transcript(saved: Mapping[str, Any]) -> Transcript:
    """Return the transcript that `save_transcript` was given; texts of committed results are in the store only.

    Raises:
        ValueError: The data was saved by a newer version, or is no saved transcript.
    """
    version = saved.get("version")
    if version not in (1, STATE_VERSION):
        raise ValueError(f"this state has version {version!r}; this memory_context reads versions 1 to {STATE_VERSION}")
    try:
        transcript = _replayed(saved)
        if version == 1 and transcript.standing.answered_whole:  # an answer compacted results by itself then
            transcript.decide(PlannedCompaction(tuple(sorted(transcript.standing.answered_whole)), "late"))
        return transcript
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"this is no saved transcript, or it was cut: {error!r}") from error


def _replayed(saved: Mapping[str, Any]) -> Transcript:
    transcript = Transcript(first_position=saved["first_position"])
    decisions = [(at, _DECISION.validate_python(unescape_json(data))) for at, data in saved["decisions"]]
    entries = [_entry_from_json(data, transcript.end + i) for i, data in enumerate(saved["entries"])]
    upcoming = 0
    for entry in [*entries, None]:
        while upcoming < len(decisions) and (entry is None or decisions[upcoming][0] <= transcript.end):
            transcript.replay(*decisions[upcoming])
            upcoming += 1
        if entry is not None:
            transcript.take(entry)
    return transcript


def _decision_to_json(decision: Decision, transcript: Transcript, chosen: Container[PartId]) -> dict[str, Any]:
    if isinstance(decision, Offloaded):
        # the log has no excerpt; the part has it as long as it is needed
        stored = transcript[decision.position].part(decision.address).stored
        if stored is not None:
            kept = replace(decision.stored, excerpt=stored.excerpt, excerpt_tokens=stored.excerpt_tokens)
            if (decision.position, decision.address) in chosen:  # what stays is saved there
                kept = replace(kept, compacted="", compacted_tokens=0)
            decision = Offloaded(decision.position, decision.address, kept)
    return asdict(decision)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    # what is committed is fetched again on loading if a view still shows it; of a call's arguments only strings are
    in_store = {
        part.address for part in entry.measured if part.stored and part.stored.refs and part.address.kind != "arguments"
    }
    missing = in_store | entry.dropped
    return {
        "message": message_to_json(with_texts(entry.message, dict.fromkeys(missing, ""))),
        "added_at": entry.added_at.isoformat(),
        "carries_result": entry.carries_result,
        "parts": None
        if entry.parts is None
        else [{key: value for key, value in asdict(part).items() if key != "stored"} for part in entry.parts],
        "missing": [asdict(address) for address in sorted(missing)],
    }


def _entry_from_json(data: Mapping[str, Any], position: int) -> Entry:
    entry = Entry(
        position,
        message_from_json(data["message"]),
        datetime.fromisoformat(data["added_at"]),
        carries_result=data["carries_result"],
        dropped={Address(**address) for address in data["missing"]},
    )
    if data["parts"] is not None:
        entry.measure([_PART.validate_python(part) for part in data["parts"]])
    return entry
