"""MemoryContext: the drop-in context of an AutoGen agent. It wires the parts together and has no policy of its own.

    add_message:   transcript.deliver -> archiver.note (write in batches) -> offloader.settle (measure, compact, store)
                   -> facts.choose -> budget.plan (decide) -> expander.start (decide, read)
    get_messages:  expander.apply_decision -> facts.choose -> offloader.measure -> budget.fit (decide) -> copies

A known session is taken up from its archive at first use. Read this file first: every arrow is one line here.
Importing it imports none of the parts: they are loaded when the first context is made.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from autogen_core import Component
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient, LLMMessage
from typing_extensions import Self

from .. import archive, compaction, expansion, light_model, memory, offload, store, transcript, view
from ..errors import MemoryContextError
from ..identifiers import SessionKey, checked_identifier, subagent_session
from ..memory import Sharing
from ..policy import ContextPolicy
from ..tokens import TokenCounter, count_off_loop, default_token_counter
from .config import MemoryContextConfig, arguments_of, config_of
from .guard import StepGuard
from .memory_api import MemoryApi

if TYPE_CHECKING:
    from ..archive import ArchiveCursor, Archiver, ResumedSession, ResumeReport
    from ..stats import ContextStats

__all__ = ["MemoryContext", "MemoryContextConfig"]

_logger = logging.getLogger("memory_context")
_CLOSE_SECONDS, _LEAVE_SECONDS, _LOAD_SECONDS = 8.0, 2.5, 8.5  # with what a store takes to stop, under 10


class MemoryContext(MemoryApi, ChatCompletionContext, Component[MemoryContextConfig]):
    """A chat context that stays small: large content goes to Postgres, a placeholder stays, and nothing is lost.

    Creating one does no I/O. `add_message` and `get_messages` never raise because of the store or the light model.

    Args:
        user_id: Whose session it is; no other user's data is ever seen.
        agent_id: The agent that holds the context.
        session_id: The conversation; None for a new one, readable as `context.session_id`, which is no part of a dump.
        memory_store: Where content goes; None for the default store (the URL in `MEMORY_CONTEXT_URL`, else the
            embedded Postgres).
        model_client: The light model: a small, cheap one that decides which references a request needs, in one call
            for each user message. None to decide by rules.
        policy: The settings.
        token_counter: Counts tokens; None for o200k_base. Not part of a component dump.
        initial_messages: Messages it begins with.
        compactors: Say what survives of a result, by tool; None for the built-in ones. Not part of a component dump.
        sharing: Whether the user's agents read each other's items; see `for_subagent`.
        resume: Whether a known session goes on where it ended; else it begins anew, and its archive stays.

    Attributes:
        light_model_client: The light model; None where rules decide.
    """

    component_config_schema = MemoryContextConfig
    component_provider_override = "memory_context.MemoryContext"

    def __init__(
        self,
        user_id: str,
        agent_id: str = "agent",
        session_id: str | None = None,
        memory_store: store.MemoryStore | None = None,
        *,
        model_client: ChatCompletionClient | None = None,
        policy: ContextPolicy | None = None,
        token_counter: TokenCounter | None = None,
        initial_messages: list[LLMMessage] | None = None,
        compactors: compaction.Compactors | None = None,
        sharing: Sharing = "shared",
        resume: bool = True,
    ) -> None:
        super().__init__(initial_messages)
        self.user_id = checked_identifier("user_id", user_id)
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = checked_identifier("session_id", uuid.uuid4().hex if session_id is None else session_id)
        self.sharing: Sharing = sharing
        self.policy = policy or ContextPolicy()
        self.token_counter = token_counter or default_token_counter()
        self.memory_store = memory_store or store.MemoryStore.default()
        self._compactors = compactors or compaction.Compactors()
        self.light_model_client = model_client
        self._light_models = light_model.LightModelGuards(model_client, self.policy)
        self._uses_default_store = memory_store is None
        if self._uses_default_store:
            self.memory_store.join(self)
        self.resumes, self._is_used = resume, False
        self._guard = StepGuard()
        self._session = archive.Session(
            self.memory_store,
            self.policy,
            self._go_on,
            self._settle,
            self._light_models,
            is_new=session_id is None,
            begins_anew=not resume,
        )
        self._start(transcript.Transcript.of(initial_messages or ()), self._session.progress)
        self._be_template(session_id)

    @property
    def _key(self) -> SessionKey:
        return SessionKey(self.user_id, self.agent_id, self.session_id)

    def _start(
        self,
        transcript: transcript.Transcript,
        progress: ArchiveCursor,
        report: ResumeReport | None = None,
        position_offset: int | None = None,
    ) -> None:
        """Wire everything to a transcript that is archived as far as `progress` says."""
        from ..stats import UsageMeter

        self._session.begin(self._key, transcript, progress, report, position_offset=position_offset)
        tag = view.session_tag(self.session_id)
        self._transcript = transcript
        self._agent_memory = memory.AgentMemory(
            self.memory_store,
            *self._key,
            sharing=self.sharing,
            token_counter=self.token_counter,
            mask_credentials=self.policy.mask_credentials,
        )
        transcript.on_decision = self._agent_memory.trail.note_decision
        limits, models = (self.policy, self.token_counter), self._light_models
        inputs = offload.CompactorInput(transcript, *limits)
        both = models.summaries, models.decisions
        self._summariser = offload.Summariser(transcript, self._agent_memory, *limits, *both)
        compact = (*limits, self._compactors, inputs, self._summariser)
        self._offloader = offload.Offloader(transcript, self._agent_memory, *compact)
        self._facts = offload.FactSelector(transcript, *compact)
        self._expander = expansion.Expander(
            transcript,
            self._agent_memory,
            *limits,
            models.decisions,
            lambda key: view.folded_text(transcript, tag, key),
            lambda offloader=self._offloader: offloader.is_store_away,  # not self: a dropped context is gone at once
        )
        self._budget = view.Budget(*limits, view.Renderer(*limits), tag)
        self._meter = UsageMeter(transcript, self.policy)
        self._expander.agent_has_tools = self._offloader.agent_has_tools = bool(self._prompt_head.tools)

    # --- the chat context ---------------------------------------------------------------------------------------

    async def add_message(self, message: LLMMessage) -> None:
        """Take a message in; its large parts are stored in one transaction, and what it asks for begins to be opened.

        Never raises because of the store: what cannot be stored within `store_timeout_seconds` stays inline and is
        stored later. The message itself is neither changed nor kept. Only with `archive.require_history` it raises
        `StoreUnavailableError` while the history of the session cannot be read: add the message again.
        """
        await self._session.require_history()
        self._take_in(message)
        with self._guard.step("storing and opening what this message holds and asks for"):
            await self._settle()
            await self._facts.choose()
            await self._measure()  # what another task added meanwhile: unmeasured, nothing can be rendered
            self._budget.plan(self._transcript, self._facts.is_held)
            self._expander.start()

    def _take_in(self, message: LLMMessage, added_at: datetime | None = None) -> None:
        self._is_used = True
        entry = self._transcript.deliver(message, added_at)
        self._offloader.add(entry)
        self._expander.observe(entry)
        self._session.archiver.schedule_flush()  # here, so that a message whose adding is cancelled is archived too

    async def _measure(self) -> None:
        offloader = None  # a history may come while this waits, and is measured too
        while offloader is not self._offloader:
            offloader = self._offloader
            await offloader.measure()

    async def _settle(self) -> bool:
        """Have the session's history, and have stored what waits; False without the history: nothing is stored yet."""
        has_history = await self._session.settle()
        await (self._offloader.settle() if has_history else self._offloader.measure())
        return has_history

    async def get_messages(self) -> list[LLMMessage]:
        """Return the view, within the budget, as fresh copies; it does no I/O of its own."""
        self._is_used = True
        with self._guard.step("the history, or what the last message asks for"):
            await self._session.settle()
            await self._expander.apply_decision()
            await self._facts.choose()
            await self._prompt_head.look(self._agent_memory, self._transcript.state)
        await self._measure()  # last: from here on nothing waits but a fit that needs a long excerpt, and begins again
        self._session.note_history(self.token_counter)
        budget = self._budget
        view = await budget.fit_off_loop(self._transcript, self._facts.is_held, self._measure)
        if budget is not self._budget:
            return await self.get_messages()  # a history came while a long excerpt was made
        if self._summariser.record():
            view = self._budget.fit(self._transcript, self._facts.is_held)
        self._prompt_head.record(self._transcript)
        if self._transcript.end > self._transcript.state.shown or self._transcript.state.unseen:
            self._transcript.decide(transcript.ViewShown(self._transcript.end))
        self._meter.add_view(self._transcript, view)
        return view.copies()

    async def clear(self) -> None:
        """Empty the view. Items stay readable by their keys, and the archive keeps what was said."""
        await self._session.settle()
        self._expander.cancel()
        self._transcript.decide(transcript.ViewCleared(self._transcript.end))
        self._session.archiver.schedule_flush()

    async def show_memories(self, text: str, keys: Sequence[str], owner: str = "") -> None:
        """Show memories after the newest message, instead of what was shown so before; "" shows none.

        For AutoGen's Memory protocol (`PostgresMemory`), which asks again before each run: what says the same stays
        where it is, so that nothing moves and nothing piles up.

        Args:
            text: What is shown.
            keys: The items it is from.
            owner: The memory that shows it; another one's stays.
        """
        await self._session.settle()
        (tokens,) = await count_off_loop(self.token_counter, [text])
        for decision in expansion.memory_decisions(self._transcript, text, tokens, keys, owner):
            self._transcript.decide(decision)
        self._session.archiver.schedule_flush()

    def for_subagent(self, agent_id: str, sharing: Sharing = "shared", *, session_id: str | None = None) -> Self:
        """Return an empty context for another agent of this user, with the store, policy and light model of this one.

        Args:
            agent_id: The other agent.
            sharing: "shared": both read what the other stores. "read_only": it reads this agent's items, but what it
                stores is private. "isolated": it reads only its own items, and they are private.
            session_id: Its conversation; None for `<session>/<agent>`. Name one if several work under one agent id.
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
        )
        if session_id is None and self.named_session_id is None:  # nobody has named what its session is named after
            context._be_template(None)
        if self._uses_default_store:
            context._uses_default_store = True
            self.memory_store.join(context)
        return context

    # --- state and insight --------------------------------------------------------------------------------------

    async def save_state(self) -> Mapping[str, Any]:
        """Return the session, JSON-native; committed results are references, so loading needs the same database."""
        await self._settle()
        await self._expander.apply_decision(for_view=False)
        session = await self._session.to_state()
        return {"user_id": self.user_id, "session_id": self.session_id, **session}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue a saved session, or take over what one of AutoGen's own contexts saved.

        A context that was not used yet takes the archive of the session instead, if that is newer; one that was goes
        back to what it is told. If the store cannot be reached, what only it has is shown compacted. A load that fails
        or is cancelled changes nothing.

        Raises:
            ValueError: The state belongs to another user, comes from a newer version, or is none.
        """
        session_id, saved = archive.saved_session(state, self.user_id, self.session_id)
        key = SessionKey(self.user_id, self.agent_id, session_id)
        ends_at = time.monotonic() + _LOAD_SECONDS
        await self._session.leave(_LEAVE_SECONDS)  # what was said since is in the archive at least
        begun = await self._session.newest(key, saved, may_be_archived=not self._is_used)
        await offload.restore_texts(begun.transcript, self._agent_memory, ends_at - time.monotonic())
        self.session_id = session_id
        self._begin(begun)
        await self._offloader.settle()

    async def _go_on(self, found: ResumedSession) -> None:
        """Go on with what the archive has, and behind it with what was said meanwhile."""
        await offload.restore_texts(found.transcript, self._agent_memory)
        if not self._session.is_pending:
            return  # a state was loaded meanwhile
        if found.report.outcome != "resumed":
            self._session.begin(self._key, self._transcript, found.progress, found.report, position_offset=0)
            return
        first = len(self._initial_messages or ())
        self._prompt_head.carry_over(self._transcript, found.transcript)
        meanwhile = archive.messages_meanwhile(self._transcript, first, found.transcript)
        self._begin(found, position_offset=found.transcript.end - first)
        for said in meanwhile:
            if said is None:
                self._expander.cancel()
                self._transcript.decide(transcript.ViewCleared(self._transcript.end))
            else:
                self._take_in(*said)

    def _begin(self, resumed: ResumedSession, position_offset: int | None = None) -> None:
        self._expander.cancel()
        for part in (self._summariser, self._offloader):
            part.forget()
        self._start(resumed.transcript, resumed.progress, resumed.report, position_offset)
        state = self._transcript.state
        if resumed.report.outcome == "resumed" and not state.unseen:
            for entry in self._transcript.entries(start=state.shown):  # what they ask for is still to be opened
                self._expander.observe(entry)

    def _to_config(self) -> MemoryContextConfig:
        store = {} if self._uses_default_store else self.memory_store.url_for_config
        return config_of(self, store, self.light_model_client, self._initial_messages or ())

    @classmethod
    def _from_config(cls, config: MemoryContextConfig) -> Self:
        context = cls(**arguments_of(config))
        context._join_template(config.template_id)
        return context

    async def explain(self) -> view.ViewReport:
        """Return what the last view held and why. Hands out nothing and changes nothing."""
        return view.report(self._transcript, *self._meter.views, self.policy.token_budget)

    @property
    def stats(self) -> ContextStats:
        """What the context did since it was made or a state was loaded; the light model's calls are the session's."""
        stats = self._meter.stats(self._transcript, self._offloader.transactions, self._session.light_model_bill)
        return replace(stats, archive_transactions=self._session.archiver.transactions)

    # --- life cycle ---------------------------------------------------------------------------------------------

    async def resume(self) -> ResumeReport:
        """Read the history of a known session now rather than at first use, and say what is there and what is missing.

        Raises:
            StoreError: The store refused or cannot be reached; call it again.
        """
        return await self._session.resume()

    @property
    def resume_report(self) -> ResumeReport:
        """How the session was taken up; `pending` before its history was read."""
        return self._session.report

    async def archive(self) -> None:
        """Write what is not archived yet now rather than with the next batch.

        Raises:
            StoreError: The store refused or cannot be reached; it waits for the next batch.
        """
        await self._session.flush()

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        return self._session.archiver.is_dirty

    @property
    def archiver(self) -> Archiver:
        """What archives the session: chat messages go through it, and it knows what is not written yet."""
        return self._session.archiver

    async def close(self) -> None:
        """Store and archive what waits, in 8 s and a second for each 10 MB; the last one closes the default store."""
        self._expander.cancel()
        ends_at = time.monotonic() + _CLOSE_SECONDS + await self._offloader.flush(0.55 * _CLOSE_SECONDS)
        await self._summariser.close()
        await self._session.close(ends_at - time.monotonic())
        if self._uses_default_store:
            await self.memory_store.leave(self, write_seconds=max(ends_at - time.monotonic(), 0.0))

    async def __aenter__(self) -> Self:
        """Open the store, so that the first large message need not wait for a server to start."""
        try:
            await self.memory_store.open()
        except MemoryContextError as error:
            _logger.warning("going on without the store for now: %s", error)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
