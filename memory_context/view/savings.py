"""Plans compactions that pay, and decides when the first one pays for the memory's tools."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from memory_context.foundation.messages import source_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.part_decisions import PartsCompacted
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.view_decisions import UserMemoryLoaded

from .economics import aged_results, ageing_of, is_cache_cold, pays_for_tools, saving_changes
from .render import Renderer

__all__ = ["Savings", "record"]


class Savings:
    """The planned compactions of one transcript.

    Attributes:
        waiting_tools: Returns the tokens of memory tools that the agent gets with the first reduced result.
    """

    waiting_tools: Callable[[], int] = staticmethod(lambda: 0)

    def __init__(self, policy: ContextPolicy, counter: TokenCounter, renderer: Renderer) -> None:
        self._policy = policy
        self._counter = counter
        self._renderer = renderer
        self._is_opening = False

    def open(self, transcript: Transcript) -> bool:
        """Return whether results may be reduced in the next view: if the tools that read them pay, or are there."""
        tokens = self.waiting_tools()
        self._is_opening = tokens > 0 and pays_for_tools(
            transcript, self._renderer.render(transcript), self._policy, tokens
        )
        return tokens == 0 or self._is_opening

    def plan(self, transcript: Transcript, is_held: Callable[[PartId], bool], *, is_cold: bool = False) -> None:
        """Record what pays; `is_cold`: nothing that a cache holds is rewritten by it."""
        state, policy = transcript.state, self._policy
        if at_once := self._shown_compacted(transcript):  # nothing changes in the view
            transcript.decide(PartsCompacted(at_once, "consumed"))
        if not policy.compaction.enabled:
            return
        if not (state.answered_whole or state.expanded or state.subjects.superseded):
            return
        if self.waiting_tools() and not (self._is_opening or is_cold):  # a fold brings the tools, too
            return
        is_cold, self._is_opening = is_cold or self._is_opening, False
        if is_cache_cold(transcript, policy.cache):  # somebody who comes back asks about the last turn
            is_cold, begin, is_waiting = True, self._last_turn(transcript), is_held
            is_held = lambda part: part[0] >= begin or is_waiting(part)  # noqa: E731
        view = self._renderer.render(transcript)
        record(transcript, saving_changes(transcript, view, policy, is_held, self._counter, is_cold))
        if aged := aged_results(transcript, self._counter):
            ageing = ageing_of(aged, transcript, self._renderer.render(transcript), policy)
            record(transcript, [*aged, ageing])

    def _last_turn(self, transcript: Transcript) -> int:
        """Return the position of the user's message before the newest one."""
        told = [one for one in transcript.state.spoken.values() if one == transcript.end - 1]
        end = told[0] if told else transcript.end
        sources = self._policy.user_sources
        asked = (
            one.position
            for one in reversed(transcript.entries(end=end))
            if one.is_told and source_of(one.message) in sources
        )
        return next(asked, transcript.state.start)

    def _shown_compacted(self, transcript: Transcript) -> tuple[PartId, ...]:
        return tuple(
            (position, address)
            for position, address in sorted(transcript.state.answered_whole)
            for entry in (transcript[position],)
            for stored in (entry.part(address).stored,)
            if stored is not None and stored.refs
            if self._policy.first_view_of(entry.tool_of(address)) == "placeholder"
        )


def record(transcript: Transcript, decisions: Sequence[Decision]) -> None:
    """Record decisions; with a planned change of the view, a user memory that came late moves to the head."""
    late = transcript.state.newest(UserMemoryLoaded)
    for decision in decisions:
        transcript.decide(decision)
    if late is not None and late.place == "tail" and any(one.rewrites_prefix for one in decisions):
        transcript.decide(replace(late, place="head"))
