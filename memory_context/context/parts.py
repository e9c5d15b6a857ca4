"""The parts of a context bound to one transcript."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from .. import expansion, observation, offload, vault, view

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from autogen_core.models import LLMMessage

    from ..compaction import Compactors
    from ..light_model import LightModelGuards
    from ..memory import AgentMemory
    from ..observation import ObservationModels
    from ..policy import ContextPolicy
    from ..tokens import TokenCounter
    from ..transcript import Entry, Transcript

__all__ = ["Parts", "StepGuard"]

_logger = logging.getLogger("memory_context")


class Parts:
    """Everything bound to one transcript, replaced together: stale work cannot reach a new transcript."""

    def __init__(
        self,
        transcript: Transcript,
        agent_memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        models: LightModelGuards,
        observers: ObservationModels,
        on_change: Callable[[], object],
    ) -> None:
        from ..stats import UsageMeter
        from .orders import OrderKeeper
        from .user_memory import UserMemoryLoader

        self.observers = observers
        tag = view.session_tag(agent_memory.session_id)
        self.transcript, self.agent_memory = transcript, agent_memory
        transcript.on_decision = agent_memory.trail.note_decision
        limits = policy, counter
        inputs = offload.CompactorInput(transcript, *limits)
        self.summariser = offload.Summariser(transcript, agent_memory, *limits, models.summaries, models.decisions)
        compact = (*limits, compactors, inputs, self.summariser)
        self.offloader = offload.Offloader(transcript, agent_memory, *compact)
        self.chooser = offload.TextChooser(transcript, *compact)
        self.expander = expansion.Expander(
            transcript,
            agent_memory,
            *limits,
            models.decisions,
            lambda key: view.folded_text(transcript, tag, key),
            lambda offloader=self.offloader: offloader.is_store_away,  # not self: avoids a reference cycle
        )
        self._masker = view.Masker(transcript, *limits)
        self.budget = view.Budget(*limits, view.Renderer(*limits), tag, self._masker.decide)
        self.chooser.may_reduce = partial(self.budget.savings.open, transcript)
        self.coordinator = observation.BufferingCoordinator(
            transcript,
            view.ViewPlanner(transcript, self.budget, policy.cache, self.chooser.is_held),
            observation.TranscriptObservers(transcript, agent_memory, observers, counter, self.chooser),
            counter,
            on_change,
        )
        self.budget.observations = self.coordinator
        self.orders = OrderKeeper(transcript, agent_memory.session_id, *limits)
        self.user_memory = UserMemoryLoader(transcript, agent_memory, *limits)
        self.user_memory.on_read = self.orders.note_learned
        self.meter = UsageMeter(transcript, policy)
        self._policy = policy
        self._entry_filter = vault.EntryFilter(agent_memory.secrets)
        for entry in transcript.entries():
            if entry.parts is None:
                self._entry_filter.add(entry, was_hidden=False)

    def deliver(self, message: LLMMessage, added_at: datetime | None, *, carries_result: bool) -> Entry:
        """Append a message, without values of secrets as far as they are known."""
        entry = self.transcript.deliver(self._entry_filter.hidden(message), added_at, carries_result=carries_result)
        self._entry_filter.add(entry, was_hidden=True)
        self.offloader.add(entry)
        self.expander.observe(entry)
        return entry

    async def hide_secrets(self) -> bool:
        """Hide values in new messages; return False while they cannot be read, then nothing may be stored."""
        is_done, changed = await self._entry_filter.settle(self._policy.archive.resume_timeout_seconds)
        for entry in changed:
            entry.parts = None
            self.offloader.add(entry)
        return is_done

    async def keep_masked(self) -> None:
        """Keep the values of new masks, encrypted, so that tools can use them."""
        if values := self._masker.values:
            seconds, session_id = self._policy.store_timeout_seconds, self.agent_memory.session_id
            if await self.agent_memory.secrets.keep_detected(dict(values), session_id, seconds):
                for name in [name for name in values if name in self._masker.values]:
                    del self._masker.values[name]

    def plan_after_answer(self) -> None:
        """Plan what pays, but spare the newest observation of a subject: the next look tells whether it still holds."""
        subjects, is_held = self.transcript.state.subjects, self.chooser.is_held
        self.budget.plan(self.transcript, lambda part: subjects.is_newest(part[0]) or is_held(part))

    async def end_step(self, entry: Entry) -> None:
        """Let observations replace messages, and observe new ones, where that is due."""
        if entry.journal is not self.transcript.touched:
            return  # of a transcript that was replaced meanwhile
        if self.coordinator.is_on:
            await self.chooser.choose_first_views()  # the next view counts
        await self.coordinator.end_step(entry.position)

    def note_tools(self) -> None:
        self.expander.agent_has_tools = self.chooser.agent_has_tools = self.budget.agent_has_tools = True
        self.user_memory.watches_changes = True

    def cancel(self) -> None:
        """Drop pending work; new parts take over."""
        self.coordinator.abort()
        self.user_memory.cancel()
        self.expander.cancel()
        self.summariser.forget()
        self.offloader.forget()


class StepGuard:
    """Lets a context continue after unexpected errors."""

    def __init__(self) -> None:
        self._known: set[tuple[str, type[Exception]]] = set()

    @contextmanager
    def step(self, what: str) -> Generator[None, None, None]:
        """Swallow an error; log its traceback once."""
        try:
            yield
        except Exception as error:
            kind = (what, type(error))
            if kind not in self._known:
                self._known.add(kind)
                _logger.exception("going on without %s", what)
            else:
                _logger.debug("going on without %s again: %s", what, error)
