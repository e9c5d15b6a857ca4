"""Which parts leave the context, and how: measured, compacted, stored in one transaction, and only then referred to.

`settle` brings every entry that is not yet settled as far as it can go. It never fails and never waits longer than
the policy says: what cannot be stored now stays inline and is tried again with a later message.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ..compaction import Compactor
from ..errors import MemoryContextError
from ..memory import AgentMemory, is_too_large
from ..messages import images_of, overhead_texts, texts_of
from ..policy import ContextPolicy
from ..tokens import TokenCounter, count_off_loop
from ..transcript import Compacted, Entry, Offloaded, Part, PartId, Transcript
from .parts import Packer, Piece

__all__ = ["Offloader"]

_logger = logging.getLogger("memory_context")

_OFF_LOOP_CHARACTERS = 50_000
_RESTORE_SECONDS = 5.0

_T = TypeVar("_T")


class Offloader:
    """Moves large parts of one transcript into the store.

    Args:
        transcript: The transcript; decisions are recorded in it.
        memory: Where items go.
        policy: Thresholds, limits, waits.
        counter: Counts tokens.
        compactor: Says what survives of a result.

    Attributes:
        transactions: How many transactions stored something.
    """

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactor: Compactor,
    ) -> None:
        self._transcript = transcript
        self._memory = memory
        self._policy = policy
        self._counter = counter
        self._packer = Packer(policy, counter, compactor)
        self._unmeasured: list[Entry] = [entry for entry in transcript.entries() if entry.parts is None]
        self._waiting: dict[int, Entry] = {
            entry.position: entry for entry in transcript.entries() if self._large_parts(entry)
        }
        self._attempt: asyncio.Task[bool] | None = None
        self._closed_until = 0.0
        self.transactions = 0

    def add(self, entry: Entry) -> None:
        """Take on an entry; `settle` does the rest."""
        self._unmeasured.append(entry)

    async def settle(self) -> None:
        """Measure what is not measured and store what is large; waits at most `store_timeout_seconds` for the store."""
        await self.measure()
        if self._waiting:
            await self._store_within(self._policy.store_timeout_seconds, is_asked=False)

    async def flush(self, timeout_seconds: float) -> None:
        """Try to store what is waiting even if the store failed a moment ago."""
        await self.measure()
        if self._waiting:
            await self._store_within(timeout_seconds, is_asked=True)

    async def restore(self) -> None:
        """Fetch, after a load, the results that the next view shows; those that cannot be had are compacted."""
        standing = self._transcript.standing
        missing = [
            (entry, part)
            for entry in self._transcript.entries()
            if not standing.is_folded(entry.position)
            for part in entry.measured
            if part.address in entry.dropped
            and part.stored is not None
            and (entry.position, part.address) not in standing.compacted
        ]
        if not missing:
            return
        keys = {part.stored.refs[0].key for _, part in missing if part.stored and part.stored.refs}
        contents: dict[str, str] = {}
        try:
            contents = await asyncio.wait_for(self._memory.retrieve_contents(keys), _RESTORE_SECONDS)
        except (MemoryContextError, asyncio.TimeoutError) as error:
            _logger.warning("results that were to be shown once more are shown compacted: %s", error)
        gone: list[PartId] = []
        for entry, part in missing:
            key = part.stored.refs[0].key if part.stored and part.stored.refs else ""
            if key in contents:
                entry.restore_texts({part.address: contents[key]})
            else:
                gone.append((entry.position, part.address))
        if gone:
            self._transcript.decide(Compacted(tuple(gone), "unavailable"))

    # --- measuring

    async def measure(self) -> None:
        """Count the tokens of entries that came since; needs no store."""
        while self._unmeasured:
            entry = self._unmeasured[0]
            parts = await self._measured(entry)
            if self._unmeasured and self._unmeasured[0] is entry:  # another task may have come first
                self._unmeasured.pop(0)
                entry.measure(parts)
                if self._large_parts(entry):
                    self._waiting[entry.position] = entry

    async def _measured(self, entry: Entry) -> list[Part]:
        message = entry.message
        overhead = overhead_texts(message)
        parts: list[Part] = []
        for address, text in texts_of(message):
            tokens = await count_off_loop(self._counter, text)
            beside = sum(self._counter.count(name) for name in overhead.get(address, ()))
            is_result = address.kind == "result" or (entry.carries_result and address.kind == "text")
            parts.append(Part(address, tokens, beside, is_result))
        parts += [Part(address, self._policy.image_tokens) for address in images_of(message)]
        return parts

    def _large_parts(self, entry: Entry) -> list[Part]:
        return [
            part
            for part in entry.measured
            if part.tokens > self._policy.offload_threshold_tokens
            and part.stored is None
            and part.address.kind != "image"
        ]

    # --- storing

    async def _store_within(self, timeout_seconds: float, is_asked: bool) -> None:
        """Run attempts one after another until nothing waits, one failed, or the time is over."""
        deadline = time.monotonic() + timeout_seconds
        while self._waiting and (is_asked or time.monotonic() >= self._closed_until):
            attempt = self._running_attempt() or self._new_attempt()
            if attempt is None:
                return
            done, _ = await asyncio.wait([attempt], timeout=max(deadline - time.monotonic(), 0))
            if not done:
                # the attempt goes on; if it succeeds later, its decisions come then
                self._closed_until = time.monotonic() + self._policy.store_retry_seconds
                _logger.warning("the store did not answer in %.1f s; content stays inline for now", timeout_seconds)
                return
            if attempt.cancelled() or not attempt.result():
                return

    def _running_attempt(self) -> asyncio.Task[bool] | None:
        attempt = self._attempt
        if attempt is None or attempt.done() or attempt.get_loop() is not asyncio.get_running_loop():
            return None
        return attempt

    def _new_attempt(self) -> asyncio.Task[bool] | None:
        work = [(entry, part) for entry in self._waiting.values() for part in self._large_parts(entry)]
        self._waiting = {entry.position: entry for entry, _ in work}
        if not work:
            return None
        self._attempt = asyncio.get_running_loop().create_task(self._try_to_store(work), name="memory_context offload")
        return self._attempt

    async def _try_to_store(self, work: Sequence[tuple[Entry, Part]]) -> bool:
        """Store the parts and record it; False if that failed, which is logged."""
        try:
            decisions = await self._stored(work)
        except Exception as error:  # nothing that happens here may reach the agent
            self._closed_until = time.monotonic() + self._policy.store_retry_seconds
            is_ours = isinstance(error, MemoryContextError)
            _logger.warning("content stays inline for now: %s", error, exc_info=None if is_ours else error)
            return False
        self._closed_until = 0.0
        for decision in decisions:
            self._transcript.decide(decision)
        for entry, _ in work:
            self._waiting.pop(entry.position, None)
        return True

    async def _stored(self, work: Sequence[tuple[Entry, Part]]) -> list[Offloaded]:
        """Store the parts in one transaction and return what to record about each."""
        packed: list[tuple[Entry, Part, list[Piece]]] = []
        decisions: list[Offloaded] = []
        for entry, part in work:
            text = entry.text(part.address)
            if text is None:
                continue
            lookup = self._memory.memory_store.lookups.find(self._memory.user_id, text)
            if lookup is not None:  # its content is stored already; it is only a look at it
                stored = self._packer.stored((), lookup.label)
                decisions.append(Offloaded(entry.position, part.address, stored))
            elif is_too_large(text):
                _logger.warning("a part of %s characters is too large to be stored; it stays inline", f"{len(text):,}")
            else:
                pieces = await _off_loop_if_long(text, partial(self._packer.pack, self._transcript, entry, part, text))
                if pieces:
                    packed.append((entry, part, pieces))
        drafts = [piece.draft for _, _, pieces in packed for piece in pieces]
        if drafts:
            refs = iter(await self._memory.store_all(drafts))
            self.transactions += 1
            for entry, part, pieces in packed:
                kept = self._packer.keep(entry, part, [(piece, next(refs)) for piece in pieces])
                decisions.append(Offloaded(entry.position, part.address, kept))
        return decisions


async def _off_loop_if_long(text: str, make: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(make) if len(text) > _OFF_LOOP_CHARACTERS else make()
