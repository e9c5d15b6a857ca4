"""Finds long arguments of answered calls that views may show as references, for `compaction.call_arguments`."""

from bisect import bisect_left

from memory_context.compaction.observation.artifacts import artifacts_of
from memory_context.foundation.messages import calls_of, results_of
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["arguments_to_cut"]


def arguments_to_cut(transcript: Transcript, least_tokens: int | None) -> set[PartId]:
    """Return stored arguments over so many tokens of calls that succeeded, before the newest step that did.

    The newest call of each action on an artifact stays whole: it may have the current text of a file. None: no calls.
    """
    if least_tokens is None:
        return set()
    state, asking = transcript.state, transcript.pairing.asking
    found, newer, is_newest = set[PartId](), set[tuple[str, str]](), True
    for position in reversed(asking[bisect_left(asking, state.history_start) : bisect_left(asking, state.consumed)]):
        entry, succeeded = transcript[position], _succeeded(transcript, position)
        for part in entry.measured:
            if part.address.kind != "arguments" or part.stored is None or part.tokens <= least_tokens:
                continue
            touched = set(artifacts_of(calls_of(entry.message)[part.address.index]))
            is_current = bool(touched - newer)
            newer |= touched
            if not is_newest and not is_current and part.address.index in succeeded and not state.is_hidden(position):
                found.add((position, part.address))
        is_newest = is_newest and not succeeded
    return {part for part in found if part not in state.compacted}


def _succeeded(transcript: Transcript, position: int) -> set[int]:
    """Return the numbers of a step's calls whose results are there and report no error."""
    answers = enumerate(transcript.pairing.answers[position])
    return {index for index, at in answers if at and not results_of(transcript[at[0]].message)[at[1]].is_error}
