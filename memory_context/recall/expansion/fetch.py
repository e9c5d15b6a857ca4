"""Fetches items from the store before a deadline, with a pause after failures."""

import logging
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_context.compaction.offloader import Offloader
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import ItemDamagedError, MemoryContextError, StoreUnavailableError
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime import background
from memory_context.foundation.runtime.background import Breaker, attempt, begin, in_thread_if_large, outages_of
from memory_context.foundation.text.statements import adds_nothing, is_question, says_nothing
from memory_context.foundation.text.tokenize import folded
from memory_context.memory.agent_memory import AgentMemory, SearchHit
from memory_context.memory.items import MemoryItem
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import OpenedItem
from memory_context.sessions.transcript.view_decisions import UserMemoryChanged, UserMemoryLoaded
from memory_context.store.items import SECRET_TYPE, MemoryCriteria, titled_once
from memory_context.store.limits import at_most
from memory_context.view.budget import session_tag
from memory_context.view.history import folded_text

from .candidates import Expansion, References
from .render import RetrievedText

__all__ = ["FetchedItem", "Fetcher"]

_logger = logging.getLogger("memory_context")

_PASSAGES = 10  # the most recalled for one message
_MORE_HITS = 50  # extra hits, since some may be visible

_CONVERSATIONS_READ, _CONCLUSIONS = 4, 2

_READING = "reading what messages ask for"

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class FetchedItem:
    """An item and its reason."""

    retrieved: RetrievedText
    opened: OpenedItem


class Fetcher:
    """Fetches items of one user; `deadline` uses the monotonic clock."""

    def __init__(
        self,
        transcript: Transcript,
        references: References,
        memory: AgentMemory,
        policy: ContextPolicy,
        offloader: Offloader,
    ) -> None:
        self.deadline = 0.0
        self._offloader = offloader
        self.is_waiting = False
        self._transcript = transcript
        self._references = references
        self._memory = memory
        self._policy = policy
        self._session_tag = session_tag(memory.session_id)
        self._breaker = Breaker(background.STORE_RETRY_SECONDS)

    @property
    def is_open(self) -> bool:
        """False just after a store failure, here or in an offload."""
        return not self._breaker.is_open and not self._offloader.is_store_away

    def fail(self, why: str) -> None:
        self._breaker.failed()
        outages_of(self._memory.memory_store).failed(
            _READING, "what this message asks for is not all brought back: %s", why
        )

    async def items(self, wanted: Sequence[Expansion], most_found: int, most_reads: int) -> list[FetchedItem]:
        """Return the hidden items of these keys."""
        found: list[FetchedItem] = []
        for expansion in wanted:
            if len(found) >= most_found:
                break
            opened = OpenedItem(expansion.key, expansion.reason, expansion.why)
            shown = self._shown(expansion.key)
            folded = folded_text(self._transcript, self._session_tag, expansion.key)
            if folded is not None:
                folded = await in_thread_if_large(len(folded), self._memory.visible, folded)
                label = f"{expansion.key} ({expansion.why})"
                found.append(FetchedItem(RetrievedText(label, folded, in_sight=shown), opened))
            elif most_reads:
                most_reads -= 1
                item = await self._retrieve(expansion.key)
                if item is not None and item.type != SECRET_TYPE and not any(item.content in text for text in shown):
                    why = f"{expansion.why}; {item.caveat}" if item.caveat else expansion.why
                    label = f"{item.ref.render()} ({why})"
                    found.append(FetchedItem(RetrievedText(label, item.content, in_sight=shown), opened))
        return found

    async def recall(self, query: str, shown: set[str], entries: Iterable[Entry]) -> list[FetchedItem]:
        """Return the best hidden passages of the user's memory."""
        transcript, most = self._transcript, _PASSAGES
        in_sight = {one.ref.key for one in self._references.before(transcript.end) if one.is_visible}
        asked = {ref.key for entry in entries for part in entry.measured if part.stored for ref in part.stored.refs}
        left_out = shown | in_sight | asked
        in_view = transcript.end - transcript.state.start  # its messages are found too
        more = min(len(left_out) + in_view, _MORE_HITS)
        hits = await self._answered(self._memory.search(query, most + more, reader=None)) or []
        known = self._known_of_user()
        left_out |= {key for one in known for key in one.keys}
        hits = [
            hit for hit in hits if self._is_telling(hit) and left_out.isdisjoint((hit.item.key, *hit.item.other_keys))
        ]
        texts = [*self._references.visible_texts(transcript.end)] if hits else []
        new = [
            hit
            for hit in hits
            if not any(folded(hit.passage.strip()) in text for text in texts)
            and not (hit.is_conversation and adds_nothing(hit.passage, self._lines_of_head()))
        ]
        why = f"recalled for {masked(query)[:60]!r}"
        return [
            FetchedItem(_recalled(item, hit, self._shown(item.key)), OpenedItem(item.key, "recalled", why))
            for hit, item in zip(new[:most], titled_once(hit.item for hit in new[:most]), strict=True)
        ]

    def _is_telling(self, hit: SearchHit) -> bool:
        """Return whether a hit tells enough: no question asked before, and no claim about the user by somebody else."""
        is_asked = hit.is_conversation and hit.item.origin != "agent" and is_question(hit.passage)
        return self._is_relevant(hit) and not is_asked and not hit.item.is_claim

    def _is_relevant(self, hit: SearchHit) -> bool:
        return hit.is_relevant and hit.relevance >= self._policy.recall.least_relevance

    def _lines_of_head(self) -> list[str]:
        return [line for one in self._known_of_user() for line in one.text.split("\n")]

    def _known_of_user(self) -> list[UserMemoryLoaded | UserMemoryChanged]:
        state = self._transcript.state
        known = (state.newest(UserMemoryLoaded), state.newest(UserMemoryChanged))
        return [one for one in known if one is not None]

    async def conclusions(self, query: str, shown: set[str]) -> list[FetchedItem]:
        """Return what agents answered in the most relevant conversations of other sessions.

        A request such as "what did we find out about X" is most like the question asked then, so of a question the
        answer is shown that followed it. What needs no other showing is added to `shown`.
        """
        criteria = MemoryCriteria(conversation=True)
        hits = await self._answered(self._memory.search(query, _CONVERSATIONS_READ, criteria, reader=None)) or []
        found: dict[str, FetchedItem] = {}
        for hit in hits:
            if (
                len(found) >= _CONCLUSIONS
                or not self._is_relevant(hit)
                or hit.item.session_id == self._memory.session_id
            ):
                continue
            answer = hit.item if hit.item.origin == "agent" else await self._answer_after(hit.item)
            shown.add(hit.item.key)  # the question itself tells nothing
            item = await self._retrieve(answer.key) if answer is not None else None
            if item is not None and item.key not in found and not adds_nothing(item.content, self._lines_of_head()):
                opened = OpenedItem(item.key, "recalled", f"concluded; recalled for {masked(query)[:60]!r}")
                asked = "" if hit.item.origin == "agent" else f" to {hit.item.ref.description!r}"
                label = f"{item.ref.render()} (recalled; answer of {item.source}{asked}, {_when(item)})"
                shown.add(item.key)
                found[item.key] = FetchedItem(
                    RetrievedText(label, item.content, in_sight=self._shown(item.key)), opened
                )
        return list(found.values())

    async def _answer_after(self, question: MemoryItem) -> MemoryItem | None:
        criteria = MemoryCriteria(
            conversation=True,
            session_id=question.session_id,
            agent_id=question.agent_id,
            created_after=question.created_at,
            oldest_first=True,
            limit=_CONVERSATIONS_READ,
        )
        later = await self._answered(self._memory.query(criteria, reader=None)) or []
        answers = (item for item in later if item.origin == "agent" and item.key != question.key)
        return next((item for item in answers if not says_nothing(item.ref.description)), None)

    def _shown(self, key: str) -> tuple[str, ...]:
        shown = self._transcript.state.expanded.values()
        return tuple(one.text for one in shown if any(opened.key == key for opened in one.opened))

    async def _retrieve(self, key: str) -> MemoryItem | None:
        return await self._answered(self._memory.retrieve(key, for_model=True, reader=None))

    async def _answered(self, call: Coroutine[Any, Any, _Answer]) -> _Answer | None:
        """Return None if the store is late."""
        try:
            answer = await self._in_time(call)
        except ItemDamagedError as error:  # not a store failure
            _logger.error("an item is not brought back: %s", error)
            return None
        except MemoryContextError as error:
            self.fail(str(error))
            return None
        if answer is not None:
            outages_of(self._memory.memory_store).worked(_READING)
        return answer

    async def _in_time(self, call: Coroutine[Any, Any, _Answer]) -> _Answer | None:
        left = self.deadline - time.monotonic()
        if left <= 0 or not self.is_open:
            call.close()
            if self.is_open:
                _logger.warning("what this message asks for is not all brought back: deciding took too long")
            return None
        with at_most(self._policy.store_timeout_seconds):
            task = begin(call)
        self.is_waiting = True
        try:
            if await attempt(task, left) is None:
                raise StoreUnavailableError("the store did not answer in time")
        finally:
            self.is_waiting = False
        return task.result()


def _when(item: MemoryItem) -> str:
    return f"{item.valid_from or item.created_at:%Y-%m-%d %H:%M} UTC"


def _recalled(item: MemoryItem, hit: SearchHit, shown: tuple[str, ...]) -> RetrievedText:
    caveat = f"; {item.caveat}" if item.caveat else ""
    lines = f"lines {hit.start_line}-{hit.end_line}"
    where = item.place or lines
    label = f"{item.headline} (recalled; from {item.source}, {_when(item)}, {where}{caveat})"
    return RetrievedText(label, hit.passage, hit.start_line, shown)
