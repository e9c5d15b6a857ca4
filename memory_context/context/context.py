"""MemoryContext: the drop-in context of an AutoGen agent. It only wires the parts together.

add_message:   transcript.deliver -> archiver.schedule_flush (batches) -> offloader.settle (measure, compact, store)
               -> chooser.choose_facts -> budget.plan (decide) -> expander.start (decide, read)
               -> coordinator.end_step (observations replace messages; new ones are observed)
get_messages:  expander.apply_decision -> chooser.choose_facts, choose_first_views -> offloader.measure
               -> budget.fit (decide) -> copies
a new session, load_state, the archive of a known session at first use: ResumedSession -> _attach
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from autogen_core import Component
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient, FunctionExecutionResultMessage, LLMMessage
from typing_extensions import Self

from memory_context.compaction.offloader import restore_texts
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.identifiers import SessionKey, Sharing, checked_identifier, subagent_session
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.learning.learner import LEARN_JOB, Learning
from memory_context.sessions.archive.cursor import BatchJob, conversation_job
from memory_context.sessions.archive.resume import (
    ResumedSession,
    messages_meanwhile,
    new_session,
    redacted_session,
    saved_session,
)
from memory_context.sessions.archive.session import Session
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ViewCleared, ViewShown
from memory_context.store.memory_store import MemoryStore
from memory_context.store.redact import PendingTraces

from .agent_context import AgentContextApi
from .config import MemoryContextConfig, arguments_of, config_of
from .memory_api import MemoryApi
from .parts import Parts, StepGuard

if TYPE_CHECKING:
    from memory_context.connectors.protocols import Connector
    from memory_context.sessions.archive.resume import ResumedSession

__all__ = ["MemoryContext", "MemoryContextConfig"]

_logger = logging.getLogger("memory_context")
_CLOSE_SECONDS, _LEAVE_SECONDS, _LOAD_SECONDS = 8.0, 2.5, 8.5  # under 10 s with the store's stop
_LEARN_SECONDS = 2.0


class MemoryContext(MemoryApi, AgentContextApi, ChatCompletionContext, Component[MemoryContextConfig]):
    """A chat context that moves large content to Postgres and leaves a placeholder; nothing is lost.

    The constructor does no I/O. `add_message` and `get_messages` never raise because of the store or the light model.

    Args:
        user_id: Owner of the session; no other user's data is visible.
        session_id: None generates one, which component dumps omit.
        memory_store: None for the default store: `MEMORY_CONTEXT_URL`, else the embedded Postgres.
        model_client: A small model that decides once per user message which references to expand; None for rules.
        token_counter: None for o200k_base. Not dumped.
        compactors: Choose the kept part of a result, by tool. Not dumped.
        sharing: See `for_subagent`.
        resume: False starts a known session from scratch.
        connectors: Parts of the environment, asked after each action.
        active_connectors: Returns the ids of those asked now; None asks all.
    """

    component_config_schema = MemoryContextConfig
    component_provider_override = "memory_context.MemoryContext"

    def __init__(
        self,
        user_id: str,
        agent_id: str = "agent",
        session_id: str | None = None,
        memory_store: MemoryStore | None = None,
        *,
        model_client: ChatCompletionClient | None = None,
        policy: ContextPolicy | None = None,
        token_counter: TokenCounter | None = None,
        initial_messages: list[LLMMessage] | None = None,
        compactors: Compactors | None = None,
        sharing: Sharing = "shared",
        resume: bool = True,
        connectors: Sequence[Connector] = (),
        active_connectors: Callable[[], Collection[str]] | None = None,
    ) -> None:
        from .connectors import ConnectorLink

        super().__init__(initial_messages)
        self.user_id = checked_identifier("user_id", user_id)
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = checked_identifier("session_id", uuid.uuid4().hex if session_id is None else session_id)
        self.sharing: Sharing = sharing
        self.policy = policy or ContextPolicy()
        self.token_counter = token_counter or default_token_counter()
        self.memory_store = memory_store or MemoryStore.default()
        self._compactors = compactors or Compactors()
        self.light_model_client = model_client
        self._light_models = LightModelGuards(model_client, self.policy)
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self.resumes, self._is_used = resume, False
        self._forgotten = PendingTraces(self.user_id)
        self.memory_store.forgettings.watch(self._forgotten)
        self._guard, self._is_strict_model = StepGuard(), False
        self._connectors = ConnectorLink(self, connectors, active_connectors)
        is_own = sharing == "shared" and "/" not in self.session_id  # a sub-agent's user is another agent
        self._learning = Learning(
            self.memory_store, user_id, self.policy, self._light_models.learning, is_enabled=is_own
        )
        batch_jobs = [
            conversation_job(self.policy, is_private=sharing != "shared"),
            BatchJob(LEARN_JOB, self._learning.payload),
        ]
        self._session = Session(
            self.memory_store, self.policy, self._join_history, self._prepare_batch, self._light_models, batch_jobs
        )
        self._learning.flush = WeakMethod(self._session.flush)
        new = new_session(
            self.key,
            Transcript.of(initial_messages or ()),
            is_archived=self.policy.archive.enabled,
            is_new=session_id is None,
            resumes=resume,
        )
        self._attach(new, self._memory_of(self.key))
        self._be_template(session_id)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.user_id, self.agent_id, self.session_id)

    async def add_message(self, message: LLMMessage) -> None:
        """Add a copy of a message, store its large parts and start to expand references.

        Content not stored within `store_timeout_seconds` is stored later.

        Raises:
            StoreUnavailableError: Only with `archive.require_history`: the history cannot be read.
        """
        await self._add(message)

    async def _add(self, message: LLMMessage, added_at: datetime | None = None) -> None:
        await self._session.require_history()
        entry = self._append(message, added_at)
        look = None
        with self._guard.step("what connectors observe"):
            look = await self._connectors.look(message)
        with self._guard.step("storing and opening what this message holds and asks for"):
            await self._store_pending()
            await self._parts.user_memory.arrive()
            await self._parts.chooser.choose_facts()
            await self._measure()  # other tasks may have added messages
            self._connectors.show(look)
            if not isinstance(message, FunctionExecutionResultMessage):  # which answers nothing: the next view plans
                self._parts.plan_after_answer()
            await self._parts.keep_masked()
            self._parts.expander.start()
        with self._guard.step("observing what was said"):
            await self._parts.end_step(entry)
        self._session.archiver.note_step(message)

    async def get_messages(self) -> list[LLMMessage]:
        """Return fresh copies of the view."""
        self._is_used = True
        self._session.archiver.note_view()
        self._drop_forgotten()
        with self._guard.step("the history, or what the last message asks for"):
            await self._session.ensure_loaded()
            await self._hide_secrets()
            await self._parts.expander.apply_decision()
            self._parts.user_memory.record()
            await self._prompt_head.look(self.agent_memory, self.transcript.state)
            await self._parts.chooser.choose_facts()
            await self._parts.chooser.choose_first_views()
        await self._measure()  # last: no await follows, except long excerpts, which restart
        self._session.note_missing_history(self.token_counter)
        parts = self._parts
        view = await parts.budget.fit_off_loop(parts.transcript, parts.chooser.is_held, self._measure)
        if parts is not self._parts or self._forgotten.waiting:
            return await self.get_messages()
        if parts.summariser.record():
            view = parts.budget.fit(parts.transcript, parts.chooser.is_held)
        self._prompt_head.record(parts.transcript, view)
        if parts.transcript.end > parts.transcript.state.shown or parts.transcript.state.unseen:
            parts.transcript.decide(ViewShown(parts.transcript.end))
        self._session.archiver.note_decisions()
        parts.meter.add_view(parts.transcript, view)
        await self._observers.events.fire()
        joins = self.policy.joins_user_messages
        return view.copies(joins_user_messages=self._is_strict_model if joins is None else joins)

    def _append(self, message: LLMMessage, added_at: datetime | None = None, carries_result: bool = False) -> Entry:
        self._is_used = True
        entry = self._parts.deliver(message, added_at, carries_result=carries_result)
        self._learning.note(entry)
        self._session.archiver.schedule_flush()  # archives cancelled additions too
        return entry

    async def _measure(self) -> None:
        parts = None  # the history may join during the await
        while parts is not self._parts:
            parts = self._parts
            await parts.offloader.measure()

    async def _hide_secrets(self) -> bool:
        parts, is_done = None, False  # the history may join during the await
        while parts is not self._parts:
            parts = self._parts
            is_done = await parts.hide_secrets()
        return is_done

    async def _store_pending(self) -> bool:
        """Return False, and store nothing, while the history or the secrets are unread."""
        self._drop_forgotten()
        if may_store := await self._session.ensure_loaded():
            self._parts.user_memory.begin()
        if is_hidden := await self._hide_secrets():
            self._parts.orders.note()
        may_store = is_hidden and may_store
        await (self._parts.offloader.settle() if may_store else self._parts.offloader.measure())
        return may_store

    async def _prepare_batch(self) -> bool:
        if may_store := await self._store_pending():
            await self._connectors.remember()
        return may_store

    def _drop_forgotten(self) -> None:
        """Drop forgotten contents before the next view, state or batch."""
        while self._forgotten.waiting:
            traces = self._forgotten.waiting.pop(0)
            now = ResumedSession(self.key, self._parts.transcript, self._session.archiver.cursor, self._session.report)
            if (redacted := redacted_session(now, traces)) is not None:
                self._attach(redacted, self.agent_memory)

    async def clear(self) -> None:
        """Empty the view. Items and archive remain."""
        await self._session.ensure_loaded()
        self._clear()

    def _clear(self) -> None:
        self._parts.expander.cancel()
        self._parts.coordinator.abort()
        self._parts.transcript.decide(ViewCleared(self._parts.transcript.end))
        self._session.archiver.schedule_flush()

    def _attach(self, session: ResumedSession, agent_memory: AgentMemory) -> None:
        """Switch to this session."""
        self._session.attach(session)
        self.session_id = session.key.session_id
        before: Parts | None = getattr(self, "_parts", None)
        if before is not None and before.transcript is session.transcript:
            return
        if before is not None:
            before.cancel()
        self._learning.first_position = session.transcript.end
        self._learning.key = session.key
        settings = (self.policy, self.token_counter, self._compactors, self._light_models)
        observing = (self._observers, self._session.archiver.schedule_flush)
        self._parts = parts = Parts(session.transcript, agent_memory, *settings, *observing)
        head, new = self._prompt_head, session.transcript  # not self: avoids a reference cycle
        parts.user_memory.catch_up = partial(self._learning.catch_up, of_others=True)
        parts.budget.savings.waiting_tools = lambda: head.waiting_tokens(new.state)
        if "retrieve_memory" in self._prompt_head.tools:
            parts.note_tools()
        state = session.transcript.state
        if session.report.outcome == "resumed" and not state.unseen:
            for entry in session.transcript.entries(start=state.shown):
                parts.expander.observe(entry)

    def _memory_of(self, key: SessionKey) -> AgentMemory:
        counter, masks = self.token_counter, self.policy.mask_credentials
        return AgentMemory(self.memory_store, *key, sharing=self.sharing, token_counter=counter, mask_credentials=masks)

    async def _join_history(self, session: ResumedSession) -> None:
        """Attach the archived session and append messages added meanwhile."""
        await restore_texts(session.transcript, self.agent_memory)
        if not self._session.is_pending or session.key != self.key:
            return
        before, history = self._parts.transcript, session.transcript
        if session.report.outcome != "resumed":
            self._attach(replace(session, transcript=before, position_offset=0), self.agent_memory)
            return
        first = len(self._initial_messages or ())
        self._prompt_head.carry_over(before, history)
        meanwhile = messages_meanwhile(before, first, history)
        self._attach(replace(session, position_offset=history.end - first), self.agent_memory)
        for one in meanwhile:
            if one is None:
                self._clear()
            else:
                self._append(*one)

    async def save_state(self) -> Mapping[str, Any]:
        """Return the session, JSON-native; stored results need the same database."""
        await self._store_pending()
        await self._parts.expander.apply_decision(for_view=False)
        await self._connectors.remember(at_end=True)
        await self._session.hand_over()
        self._drop_forgotten()
        return {"user_id": self.user_id, "session_id": self.session_id, **self._session.to_state()}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue a saved session, also of AutoGen's own contexts.

        An unused context prefers a newer archive. Without the store, its texts are shown compacted. A failed or
        cancelled load changes nothing.

        Raises:
            ValueError: Another user's state, a newer version's, or not a state.
        """
        saved = saved_session(state, self.key)
        ends_at = time.monotonic() + _LOAD_SECONDS
        await self._session.leave(_LEAVE_SECONDS)
        session = await self._session.newest(saved, may_be_archived=not self._is_used)
        session = await self._session.without_forgotten(session)
        agent_memory = self.agent_memory if session.key == self.key else self._memory_of(session.key)
        await restore_texts(session.transcript, agent_memory, ends_at - time.monotonic())
        self._attach(session, agent_memory)
        with self._guard.step("what connectors saw before"):
            self._connectors.restore()
        await self._parts.offloader.settle()

    def for_subagent(
        self,
        agent_id: str,
        sharing: Sharing = "shared",
        *,
        session_id: str | None = None,
        connectors: Sequence[Connector] = (),
    ) -> Self:
        """Return an empty context for another agent of this user, with the same store, policy and light model.

        Args:
            sharing: "shared": both read each other's items. "read_only": it reads this agent's items, its own are
                private. "isolated": it reads only its own, private items.
            session_id: None for `<session>/<agent>`; must differ for equal agent ids.
            connectors: Its own, or some of this context's, which this context closes; each change is told to whoever
                asks first.
        """
        context = type(self)(
            self.user_id,
            agent_id,
            subagent_session(self.session_id, agent_id) if session_id is None else session_id,
            self.memory_store,
            model_client=self.light_model_client,
            policy=self.policy,
            token_counter=self.token_counter,
            compactors=self._compactors,
            sharing=sharing,
            resume=False,
            connectors=connectors,
        )
        context._connectors.borrow(self._connectors)
        context._learning.is_enabled = False
        context.observation.completion_function = self.observation.completion_function
        if session_id is None and self.named_session_id is None:  # both ids are generated
            context._be_template(None)
        if self._uses_default_store:
            context._uses_default_store = True
            self.memory_store.join(context)
        return context

    def _to_config(self) -> MemoryContextConfig:
        store = {} if self._uses_default_store else self.memory_store.url_for_config
        return config_of(self, store, self.light_model_client, self._initial_messages or ())

    @classmethod
    def _from_config(cls, config: MemoryContextConfig) -> Self:
        context = cls(**arguments_of(config))
        context._join_template(config.template_id)
        return context

    async def close(self) -> None:
        """Store and archive the rest in 8 s, plus 1 s per 10 MB; the last context closes the default store.

        Up to 2 s of that are for learning what the user said, so that a session that begins at once knows it.
        """
        parts = self._parts
        parts.expander.cancel()
        parts.coordinator.abort()
        parts.user_memory.cancel()
        await self._connectors.close()
        ends_at = time.monotonic() + _CLOSE_SECONDS + await parts.offloader.flush(0.55 * _CLOSE_SECONDS)
        await parts.keep_masked()
        await parts.summariser.close()
        await self._session.close(ends_at - time.monotonic())
        await self._learning.catch_up(min(_LEARN_SECONDS, max(ends_at - time.monotonic(), 0.0)))
        if self._uses_default_store:
            await self.memory_store.leave(self, write_seconds=max(ends_at - time.monotonic(), 0.0))

    async def __aenter__(self) -> Self:
        try:
            await self.memory_store.open()  # now rather than with the first message
        except MemoryContextError as error:
            _logger.warning("going on without the store for now: %s", error)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
