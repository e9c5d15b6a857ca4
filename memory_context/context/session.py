"""Everything of a context that is bound to one transcript."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from autogen_core.models import LLMMessage

from memory_context.compaction.chooser import TextChooser
from memory_context.compaction.compactor_input import CompactorInput
from memory_context.compaction.observation.coordinator import BufferingCoordinator
from memory_context.compaction.observation.observers import ObservationModels, TranscriptObservers
from memory_context.compaction.offloader import Offloader
from memory_context.compaction.summaries import Summariser
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.learning.learner import Learning
from memory_context.memory.vault.entry import EntryFilter
from memory_context.recall.expansion.expander import Expander, memory_decisions
from memory_context.recall.tools.prompt_head import PromptHead
from memory_context.sessions.archive import session_archive
from memory_context.sessions.archive.resume import ResumedSession
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.redelivery import note_repeats
from memory_context.sessions.transcript.view_decisions import ViewCleared
from memory_context.view.bill import UsageMeter
from memory_context.view.budget import Budget, ViewPlanner, session_tag
from memory_context.view.masking import Masker
from memory_context.view.render import Renderer

from .hooks import Hooks
from .user_memory import OrderKeeper, UserMemoryLoader

__all__ = ["Session", "StepGuard"]

_logger = logging.getLogger("memory_context")


class Session:
    """One transcript with its collaborators, replaced as a whole: stale work cannot reach a new transcript.

    Attributes:
        offloader: Stores large parts.
        summariser: Has a light model summarise results in the background.
        chooser: Chooses what stays of a result beside its placeholder.
        expander: Brings stored content back for a turn.
        budget: Renders the view and decides what it leaves out.
        coordinator: Lets observations stand for old messages.
        orders: Keeps what the user ordered.
        user_memory: Reads what is known of the user.
        meter: Counts tokens and costs.
    """

    def __init__(
        self,
        resumed: ResumedSession,
        agent_memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        models: LightModelGuards,
        observers: ObservationModels,
        prompt_head: PromptHead,
        learning: Learning,
        schedule_flush: Callable[[], object],
        hooks: Hooks,
    ) -> None:
        self.transcript = transcript = resumed.transcript
        self.agent_memory = agent_memory
        self._counter, self._policy, self._observers, self._schedule_flush = counter, policy, observers, schedule_flush
        self.meter = UsageMeter(transcript, policy)
        transcript.on_decision = hooks.attach(resumed.key, transcript, agent_memory.trail, self.meter)
        limits, tag = (policy, counter), session_tag(agent_memory.session_id)
        self.summariser = Summariser(transcript, agent_memory, *limits, models.summaries, models.decisions)
        compact = (*limits, compactors, CompactorInput(transcript, *limits), self.summariser)
        self.offloader = Offloader(transcript, agent_memory, *compact)
        self.chooser = TextChooser(transcript, *compact)
        self.expander = Expander(transcript, agent_memory, *limits, models.decisions, self.offloader)
        self._masker = Masker(transcript, *limits)
        self.budget = Budget(*limits, Renderer(*limits), tag, self._masker)
        self.chooser.may_reduce = partial(self.budget.savings.open, transcript)
        self.coordinator = BufferingCoordinator(
            transcript,
            ViewPlanner(transcript, self.budget, policy.cache, self.chooser.is_held),
            TranscriptObservers(transcript, agent_memory, observers, counter, self.chooser),
            counter,
            schedule_flush,
        )
        self.budget.observations, self.budget.bill = self.coordinator, self.meter.bill
        self.orders = OrderKeeper(transcript, agent_memory.session_id, *limits)
        self.user_memory = UserMemoryLoader(transcript, agent_memory, *limits, self.orders, learning)
        self._entry_filter = EntryFilter(agent_memory.secrets)
        for entry in transcript.entries():
            if entry.parts is None:
                self._entry_filter.add(entry, was_hidden=False)
        self.budget.savings.waiting_tools = lambda: prompt_head.waiting_tokens(transcript.state)
        if "retrieve_memory" in prompt_head.tools:
            self.note_tools()
        if resumed.report.outcome == "resumed" and not transcript.state.unseen:
            for entry in transcript.entries(start=transcript.state.shown):
                self.expander.observe(entry)

    def append(self, message: LLMMessage, added_at: datetime | None = None, *, carries_result: bool = False) -> Entry:
        """Append a message, without values of secrets as far as they are known, and have it archived."""
        transcript, hidden = self.transcript, self._entry_filter.hidden(message)
        entry = transcript.append(hidden, added_at, carries_result=carries_result)
        if transcript.state.answered < transcript.state.shown or not transcript.has_answer():
            note_repeats(transcript)  # what an agent has answered comes no second time
        self._entry_filter.add(entry, was_hidden=True)
        self.offloader.add(entry)
        self.expander.observe(entry)
        self._schedule_flush()  # also of an addition that is cancelled
        return entry

    async def hide_secrets(self) -> bool:
        """Hide values in new messages; return False while they cannot be read, then nothing may be stored."""
        is_done, changed = await self._entry_filter.settle(session_archive.RESUME_SECONDS)
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
        is_due = self._observers.is_on or self.transcript.state.observation.has_finished
        if not is_due or entry.journal is not self.transcript.touched:
            return  # the entry may be of a transcript that was replaced meanwhile
        if self.coordinator.is_on:
            await self.chooser.choose_first_views()  # the next view counts
        await self.coordinator.end_step(entry.position)

    def note_tools(self) -> None:
        """Note that the agent opens references itself."""
        self.expander.agent_has_tools = self.chooser.agent_has_tools = self.budget.agent_has_tools = True
        self.user_memory.watches_changes = True

    async def show_memories(self, text: str, keys: Sequence[str], owner: str) -> None:
        """Show memories after the newest message, in place of the owner's earlier ones."""
        text = await in_thread_if_large(len(text), self.agent_memory.visible, text)
        (tokens,) = await count_off_loop(self._counter, [text])
        for decision in memory_decisions(self.transcript, text, tokens, keys, owner):
            self.transcript.decide(decision)
        self._schedule_flush()

    def clear(self) -> None:
        """Empty the view."""
        self.expander.cancel()
        self.coordinator.abort()
        self.transcript.decide(ViewCleared(self.transcript.end))
        self._schedule_flush()

    def stop(self) -> None:
        """Cancel what is read and asked for the next view."""
        self.coordinator.abort()
        self.user_memory.cancel()
        self.expander.cancel()

    def cancel(self) -> None:
        """Drop pending work; another session takes over."""
        self.stop()
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
