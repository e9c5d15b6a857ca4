"""Loads the user's memory beside the agent, once a session and again after a change; notes what the user orders.

    unread ──first message──▶ learning ─▶ reading ──▶ recorded: in the head before the first view, else in the tail
                                            ▲            │
                                            └──change────┘      shown in the tail

What other sessions of this process were just told is learned before it is read, within a part of that wait.

A view shows what was recorded; it reads nothing itself and waits for nothing.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from autogen_core.models import UserMessage

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime import background
from memory_context.foundation.runtime.background import Background, Breaker, outages_of
from memory_context.foundation.text.own_words import own_passages
from memory_context.foundation.text.statements import is_courtesy
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.learning.learner import Learning
from memory_context.memory.learning.rules import ended_orders, orders_in
from memory_context.memory.user_memory import UserMemoryText
from memory_context.sessions.archive.cursor import known_items, traces_of
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import StandingOrder
from memory_context.sessions.transcript.view_decisions import (
    OrderStated,
    UserMemoryChanged,
    UserMemoryLoaded,
    ViewShown,
)
from memory_context.store.items import MemoryItem
from memory_context.store.notes import AgentNotes
from memory_context.store.statements import UserMemory

__all__ = ["OrderKeeper", "UserMemoryLoader"]


_READ_CHARACTERS = 12_000  # of a message; longer ones are documents
_FIRST_ENTRIES = 200  # of a transcript that comes without decisions


class OrderKeeper:
    """Records the orders of new messages by rules, and those that a light model learned of this session."""

    def __init__(self, transcript: Transcript, session_id: str, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._transcript = transcript
        self._session_id = session_id
        self._policy = policy
        self._counter = counter
        is_noted = bool(transcript.decisions(ViewShown))
        self._read = transcript.end if is_noted else max(transcript.first, transcript.end - _FIRST_ENTRIES)

    def note(self) -> None:
        """Record the orders in messages that came since the last call; values of secrets are out of them by then."""
        transcript = self._transcript
        for entry in transcript.entries(start=max(self._read, transcript.state.start)):
            self._note(entry)
        self._read = transcript.end

    def note_learned(self, statements: Sequence[MemoryItem]) -> None:
        """Record statements that were learned from this session, by their quotes; drop those that ended since."""
        state = self._transcript.state
        for one in statements:
            said_at = one.metadata.get("quoted_at")
            if one.metadata.get("quoted_session") != self._session_id or not isinstance(said_at, int):
                continue
            position, quote = said_at - 1, masked(str(one.metadata.get("quote", "")))
            standing = [order for order in state.orders if order.position == position and quote in order.text]
            if one.valid_until is not None:
                gone = tuple(order for order in standing if order.text == quote)
                if gone:
                    self._transcript.decide(OrderStated(position, ended=gone))
            elif quote and not standing and state.start <= position < self._transcript.end:
                self._transcript.decide(OrderStated(position, (self._order(position, quote),)))

    def _note(self, entry: Entry) -> None:
        if not entry.is_told or getattr(entry.message, "source", "") not in self._policy.user_sources:
            return
        texts = [text for address, text in entry.texts if address.kind == "text" and not is_courtesy(text)]
        passages = [one for text in texts for one in own_passages(text, _READ_CHARACTERS)]
        if not passages:
            return
        standing = self._transcript.state.orders
        ended = tuple(standing[index] for index in ended_orders(passages, [one.text for one in standing]))
        stated = tuple(self._order(entry.position, masked(one)) for one in orders_in(passages))
        if stated or ended:
            self._transcript.decide(OrderStated(entry.position, stated, ended))

    def _order(self, position: int, text: str) -> StandingOrder:
        return StandingOrder(position, text, self._counter.count(f"- {text}\n"))


_LEARNING_SHARE = 0.5  # of the wait before the first view; the rest is for reading what is known
_LOADING = "loading the user's memory"


class UserMemoryLoader:
    """The user's memory in the transcript of one session; an isolated agent has its notes only.

    Args:
        orders: Takes over the orders among the statements whenever they were read.
        learning: Learns what other sessions of this process heard of the user.
    """

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        orders: OrderKeeper,
        learning: Learning,
    ) -> None:
        self._transcript = transcript
        self._memory = memory
        self._text = UserMemoryText(policy.user_memory_limit_tokens, counter)
        self._is_enabled = policy.user_memory.enabled
        self._wait_seconds = policy.store_timeout_seconds
        self._breaker = Breaker(background.STORE_RETRY_SECONDS)
        self._work = Background[UserMemory]("memory_context user memory")
        self._task: asyncio.Task[UserMemory] | None = None
        self._changes_read: int | None = None
        self._turn_read = 0
        self._began_at = 0.0
        self._forgotten = set[str]()
        self.watches_changes = False
        self._orders, self._learning = orders, learning

    def begin(self) -> None:
        """Start to read what was never read or has changed; a dictionary look-up otherwise."""
        if self.watches_changes and self._is_new_turn and self._transcript.end > self._turn_read:
            self._turn_read, self._changes_read = self._transcript.end, None  # other processes may have changed it
        changes = self._memory.memory_store.user_memory_changes[self._memory.user_id]
        is_known = changes == self._changes_read or self._transcript.end == self._transcript.state.start
        if is_known or not self._is_enabled or self._task is not None or self._breaker.is_open:
            return
        self._changes_read = changes
        self._task = self._work.start(self._read)
        if self._has_view or not self._began_at:
            self._began_at = time.monotonic()

    async def arrive(self) -> None:
        """Record what was read; wait for it when a turn begins, within a step's time for the store."""
        task = self._task
        if task is not None and task.get_loop() is not asyncio.get_running_loop():
            self.cancel()  # its event loop ended
        elif task is not None and not task.done() and (self._is_new_turn or not self._has_view):
            await asyncio.wait([task], timeout=max(self._began_at + self._wait_seconds - time.monotonic(), 0.0))
        self.record()

    def record(self) -> None:
        """Record what was read meanwhile, if anything new."""
        if self._task is None or not self._task.done():
            return
        task, self._task = self._task, None
        try:
            memory = task.result()
        except asyncio.CancelledError:
            self._changes_read = None
            return
        except MemoryContextError as error:
            self._changes_read = None
            self._breaker.failed()
            outages = outages_of(self._memory.memory_store)
            outages.failed(_LOADING, "going on without the user's memory: %s", error, level=logging.INFO)
            return
        outages_of(self._memory.memory_store).worked(_LOADING)
        self._decide(memory)

    def cancel(self) -> None:
        self._work.cancel()
        self._task = self._changes_read = None

    async def _read(self) -> UserMemory:
        is_again = self._transcript.state.newest(UserMemoryLoaded) is not None
        is_isolated, store = self._memory.sharing == "isolated", self._memory.memory_store
        if not (is_again or is_isolated):
            await self._learning.catch_up(_LEARNING_SHARE * self._wait_seconds, of_others=True)
            self._changes_read = store.user_memory_changes[self._memory.user_id]
        if is_again:
            known = known_items(self._transcript, self._memory)
            forgotten = await store.conversations.forgotten_keys(self._memory.user_id, known)
            if new := {*forgotten} - self._forgotten:
                self._forgotten |= new
                store.forgettings.tell(self._memory.user_id, traces_of(self._transcript, self._memory, known, new))
        return await store.statements.fetch_user_memory(
            self._memory.user_id, scope=self._memory.scope, with_superseded=is_again, only_notes=is_isolated
        )

    def _decide(self, memory: UserMemory) -> None:
        state, session_id = self._transcript.state, self._memory.session_id
        self._orders.note_learned(memory.statements)
        loaded, shown = state.newest(UserMemoryLoaded), state.newest(UserMemoryChanged)
        notes, memory = memory.notes, self._without_own_edits(memory, loaded, shown)
        if loaded is None:
            head = self._text.head(memory, session_id)
            if head.text:
                self._transcript.decide(replace(head, place="tail" if self._has_view else "head"))
            self._note_shown(head.text, notes)
            return
        if forgotten := set(loaded.keys) - {one.key for one in memory.statements}:
            loaded = self._text.without(loaded, forgotten)
            self._transcript.decide(loaded)
        news = self._text.news(loaded, memory, session_id)
        if news.text != (shown.text if shown is not None else ""):
            self._transcript.decide(news)
            self._note_shown(news.text, notes)

    def _without_own_edits(
        self, memory: UserMemory, loaded: UserMemoryLoaded | None, shown: UserMemoryChanged | None
    ) -> UserMemory:
        """Leave out notes that the session wrote or read itself, until others' edits are shown."""
        notes = memory.notes
        if not (self._has_view and self._memory.notes.knows(notes.text)) or self._text.has_new_notes(shown):
            return memory
        known = AgentNotes(version=notes.version) if loaded is None else replace(notes, version=loaded.notes_version)
        return replace(memory, notes=known)

    def _note_shown(self, text: str, notes: AgentNotes) -> None:
        """Let the agent replace notes that it is shown as a whole."""
        if self._text.shows_notes(text, notes.text):
            self._memory.notes.note_shown(notes.text)

    @property
    def _is_new_turn(self) -> bool:
        end = self._transcript.end
        return end > self._transcript.first and isinstance(self._transcript[end - 1].message, UserMessage)

    @property
    def _has_view(self) -> bool:
        return bool(self._transcript.decisions(ViewShown))
