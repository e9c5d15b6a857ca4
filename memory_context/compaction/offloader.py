"""Moves large parts into the store: measure, compact, store in one transaction, then refer to them.

`settle` never fails; parts that cannot be stored in time stay inline and are retried with a later message.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Sequence

from autogen_core import Image

from memory_context.foundation import tokens as token_counts
from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.errors import MemoryContextError, StoreError, StoreUnavailableError
from memory_context.foundation.messages import (
    Address,
    image_at,
    image_from_bytes,
    images_of,
    overhead_texts,
    png_bytes,
    sendable_text,
    texts_of,
)
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.runtime import background
from memory_context.foundation.runtime.background import Background, Breaker, in_thread_if_large, outages_of
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import is_too_large
from memory_context.sessions.transcript.entries import Entry, Part, PartId
from memory_context.sessions.transcript.part_decisions import PartOffloaded, PartsCompacted, RepeatFound
from memory_context.sessions.transcript.transcript import Transcript

from .compactor_input import CompactorInput
from .packing import PackedItem, Packer, find_repeated, image_name, may_repeat, pixels_of, sources_before
from .summaries import Summariser

__all__ = ["WORTH_SUPERSEDING_TOKENS", "Offloader", "fetch_parts", "restore_texts"]

_logger = logging.getLogger("memory_context")

_RESTORE_SECONDS = 5.0
_STORING = "storing content"
_WRITE_SECONDS = 10.0  # longer than the close of a store waits

WORTH_SUPERSEDING_TOKENS = 100
"""A line with a reference takes about 40."""

_Packed = tuple[Entry, Part, list[PackedItem]]


class Offloader:
    """Moves large parts of one transcript into the store.

    Attributes:
        transactions: Number of transactions that stored something.
    """

    write_order = 0

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        inputs: CompactorInput | None = None,
        summariser: Summariser | None = None,
    ) -> None:
        self._transcript = transcript
        self._memory = memory
        self._policy = policy
        self._counter = counter
        self._compactors = compactors
        self._inputs = inputs or CompactorInput(transcript, policy, counter)
        self._summariser = summariser
        self._packer = Packer(policy, counter, compactors)
        self._inline_for_good: set[PartId] = set()
        self._unmeasured: list[Entry] = []
        self._waiting: dict[int, Entry] = {}
        self._storing = Background[bool]("memory_context offload")
        self._breaker = Breaker(background.STORE_RETRY_SECONDS)
        self._outages = outages_of(memory.memory_store)
        self.transactions = 0
        self._buffers = memory.memory_store.unwritten
        for entry in transcript.entries():
            if entry.parts is None:
                self._unmeasured.append(entry)
            else:
                self._wait_for_store(entry)

    @property
    def is_store_away(self) -> bool:
        """True if the store failed a moment ago."""
        return self._breaker.is_open

    def add(self, entry: Entry) -> None:
        self._unmeasured.append(entry)

    def add_superseded(self, position: int) -> None:
        """Have an observation stored, also a small one, since a line will replace it in the view."""
        if (entry := self._transcript[position]).parts is not None:
            self._wait_for_store(entry)

    async def settle(self) -> None:
        """Measure new entries and store large parts, for at most `store_timeout_seconds`."""
        await self.measure()
        if self._waiting and not self.is_store_away:
            await self._store_within(self._policy.store_timeout_seconds)

    @property
    def unwritten(self) -> str:
        """Description of the waiting parts, or empty."""
        count = len(self._waiting)
        return f"session {self._memory.session_id!r}: content of {count:,} messages" if count else ""

    async def write_out(self, *, is_last: bool) -> None:
        """Store all waiting parts, even right after a failure; raises StoreUnavailableError."""
        summariser, self._summariser = self._summariser, None if is_last else self._summariser
        try:
            await self._store_within(_WRITE_SECONDS + self.extra_seconds)
            if self._waiting:
                raise StoreUnavailableError("the store did not take it")
        finally:
            self._summariser = summariser
            if is_last:
                await self._storing.stop()

    @property
    def extra_seconds(self) -> float:
        """Additional time for large waiting parts."""
        entries = self._waiting.values()
        size = sum(len(text) for entry in entries for _, text in self._large_parts(entry))
        size += sum(pixels_of(image) for entry in entries for _, image in self._images(entry))
        return size / self._memory.memory_store.limits.bytes_per_second

    def forget(self) -> None:
        """Drop the waiting parts: another owner continues with their messages."""
        self._waiting.clear()
        self._buffers.release(self)

    async def flush(self, timeout_seconds: float) -> float:
        """Try to store all waiting parts, even right after a failure; return extra seconds allowed for large ones."""
        await self.measure()
        extra_seconds = self.extra_seconds
        timeout_seconds += extra_seconds
        deadline = time.monotonic() + timeout_seconds
        if self._storing.running() is not None:  # it may hang on a dead connection: then try afresh
            await self._store_within(timeout_seconds)
        if self._waiting and (left := deadline - time.monotonic()) > 0:
            await self._store_within(left)
        if self._waiting:
            _logger.warning("content of %d messages is not stored; only a saved state has it now", len(self._waiting))
        return extra_seconds

    # --- measuring

    async def measure(self) -> None:
        """Count the tokens of new entries."""
        while self._unmeasured:
            entry = self._unmeasured[0]
            parts = await self._measured(entry)
            if self._unmeasured and self._unmeasured[0] is entry:  # another task may have measured it
                self._unmeasured.pop(0)
                entry.measure(parts)
                self._recognise_answers(entry)
                self._wait_for_store(entry)

    async def _measured(self, entry: Entry) -> list[Part]:
        message = entry.message
        overhead = overhead_texts(message)
        texts = texts_of(message)
        counts = await count_off_loop(self._counter, [sendable_text(at.kind, text) for at, text in texts])
        parts: list[Part] = []
        for (address, _), tokens in zip(texts, counts, strict=True):
            beside = sum(self._counter.count(name) for name in overhead.get(address, ()))
            is_result = address.kind == "result" or (entry.carries_result and address.kind == "text")
            parts.append(Part(address, tokens, beside, is_result))
        images = [Part(address, token_counts.IMAGE_TOKENS) for address in images_of(message)]
        for part in images:  # before the wait for the store, and outside of the event loop
            if (image := image_at(message, part.address)) is not None:
                await in_thread_if_large(pixels_of(image), png_bytes, image)
        return parts + images

    def _recognise_answers(self, entry: Entry) -> None:
        """Record answers of memory tools, and images that they opened: they are stored already."""
        opened: dict[int, MemoryRef] = {}
        for part, image in entry.unstored_images:
            if (ref := self._memory.opened_images.get(image)) is not None:
                opened[part.address.index] = ref
                stored = self._packer.stored((ref,), ref.render())
                self._transcript.decide(PartOffloaded(entry.position, part.address, stored, is_new=False))
        for part, text in self._large_parts(entry):
            if (ref := opened.get(part.address.index + 1)) is not None:  # its line, which names and describes it
                label = ref.render()
            elif (answer := self._memory.find_answer(text)) is not None:
                label = answer.label
            else:
                continue
            self._transcript.decide(PartOffloaded(entry.position, part.address, self._packer.stored((), label)))

    def _wait_for_store(self, entry: Entry) -> None:
        if self._large_parts(entry) or self._images(entry):
            self._waiting[entry.position] = entry
            self._buffers.hold(self)

    def _large_parts(self, entry: Entry) -> list[tuple[Part, str]]:
        return [
            (part, text)
            for part in entry.measured
            if (part.tokens > self._policy.offload_threshold_tokens or self._is_superseded(entry, part))
            and part.stored is None
            and (entry.position, part.address) not in self._inline_for_good
            and (entry.position, part.address) not in self._transcript.state.repeated
            and (text := entry.text(part.address)) is not None
        ]

    def _is_superseded(self, entry: Entry, part: Part) -> bool:
        return entry.position in self._transcript.state.subjects.superseded and part.tokens > WORTH_SUPERSEDING_TOKENS

    def _images(self, entry: Entry) -> list[tuple[Part, Image]]:
        """Return the images that wait for the store, whatever their tokens: as text they would be large."""
        waiting = entry.unstored_images
        return [one for one in waiting if (entry.position, one[0].address) not in self._inline_for_good]

    # --- storing

    async def _store_within(self, timeout_seconds: float) -> None:
        """Retry until nothing waits, an attempt failed, or time is up."""
        deadline = time.monotonic() + timeout_seconds
        while self._waiting:
            try:
                has_stored = await self._storing.result(self._try_to_store, max(deadline - time.monotonic(), 0))
            except StoreUnavailableError:  # another task stopped it
                return
            except asyncio.TimeoutError:
                # the attempt continues and records its decisions when it succeeds
                self._breaker.failed()
                self._outages.failed(
                    _STORING, "content was not stored within %.1f s; it stays inline for now", timeout_seconds
                )
                return
            if not has_stored:
                return

    async def _try_to_store(self) -> bool:
        entries = list(self._waiting.values())
        await self._record_repeats(entries)
        packed = await self._packed(entries)
        try:
            try:
                await self._store(packed)
            except StoreUnavailableError:
                raise
            except Exception as error:
                _logger.warning("storing %d contents at once failed, trying one by one: %s", len(packed), error)
                await self._store_one_by_one(packed)
        except StoreError as error:
            self._breaker.failed()
            self._outages.failed(_STORING, "content stays inline for now: %s", error)
            return False
        self._outages.worked(_STORING)
        self._breaker.worked()
        for entry in entries:
            self._waiting.pop(entry.position, None)
        if not self._waiting:
            self._buffers.release(self)
        return True

    async def _record_repeats(self, entries: Sequence[Entry]) -> None:
        work = [
            (entry, part, text, sources)
            for entry in entries
            for part, text in self._large_parts(entry)
            if may_repeat(entry, part, self._policy) and (sources := sources_before(self._transcript, entry.position))
        ]
        if not work:
            return

        def compare_all() -> list[list[str] | None]:
            return [find_repeated(text, sources) for _, _, text, sources in work]

        size = sum(len(text) + sum(len(one.text) for one in sources) for _, _, text, sources in work)
        found = await in_thread_if_large(size, compare_all)
        for (entry, part, _, _), keys in zip(work, found, strict=True):
            if keys is not None:
                self._transcript.decide(RepeatFound(entry.position, part.address, tuple(keys)))

    async def _packed(self, entries: Sequence[Entry]) -> list[_Packed]:
        """Pack large parts; those that cannot be packed stay inline."""
        work = [
            (entry, part, text, self._inputs.for_item(entry, part, text) if part.is_result else None)
            for entry in entries
            for part, text in self._large_parts(entry)
        ]

        images = [
            (entry, part, image, image_name(self._transcript, entry, image))
            for entry in entries
            for part, image in self._images(entry)
        ]

        def pack_all() -> list[_Packed]:  # may run in a thread: must not read the transcript
            packed: list[_Packed] = []
            for entry, part, image, name in images:
                try:
                    packed.append((entry, part, [self._packer.pack_image(entry, part, image, name)]))
                except Exception as error:
                    self._keep_inline(entry, part, error)
            for entry, part, text, given in work:
                try:
                    if is_too_large(text):
                        raise ValueError(f"{len(text):,} characters are too large to be stored")
                    if items := self._packer.pack(entry, part, text, given):
                        packed.append((entry, part, items))
                except Exception as error:  # one bad content must not block the others
                    self._keep_inline(entry, part, error)
            return packed

        size = sum(_packing_size(*one) for one in work) + sum(pixels_of(image) for _, _, image, _ in images)
        return await in_thread_if_large(math.inf if self._compactors.may_wait and work else size, pack_all)

    async def _store(self, packed: Sequence[_Packed]) -> None:
        """Store in one transaction."""
        new_items = [one.item for _, _, items in packed for one in items]
        if not new_items:
            return
        refs = iter(await self._memory.store_all(new_items))
        self.transactions += 1
        for entry, part, items in packed:
            own = [next(refs) for _ in items]
            stored = self._packer.keep(entry, part, items, own)
            self._transcript.decide(PartOffloaded(entry.position, part.address, stored))
            if part.address.kind != "image":
                self._summarise(entry, part, items[0].item.content)

    def _summarise(self, entry: Entry, part: Part, text: str) -> None:
        if self._summariser is None or part.stored is None or not self._summariser.wants(part):
            return
        try:
            given = self._inputs.for_facts(entry, part, text)
            self._summariser.consider(entry, part, *given, part.stored.refs[0].key)
        except Exception as error:
            _logger.warning("message %d is not summarised: %s", entry.position + 1, error)

    async def _store_one_by_one(self, packed: Sequence[_Packed]) -> None:
        """Store each part separately. Raises StoreError if all failed: retry later."""
        refused: list[tuple[_Packed, StoreError]] = []
        for one in packed:
            try:
                await self._store([one])
            except StoreUnavailableError:
                raise
            except StoreError as error:
                refused.append((one, error))
            except Exception as error:  # the content stays inline
                self._keep_inline(one[0], one[1], error)
        if refused and len(refused) == len(packed):
            raise refused[0][1]
        for (entry, part, _), error in refused:
            self._keep_inline(entry, part, error)

    def _keep_inline(self, entry: Entry, part: Part, error: Exception) -> None:
        self._inline_for_good.add((entry.position, part.address))
        _logger.warning("a part of message %d stays inline for good: %s", entry.position + 1, error)


def _packing_size(entry: Entry, part: Part, text: str, given: tuple[Result, Hint] | None) -> float:
    """Return how much packing reads: status and description take 2.4 ms of 40,000 characters, of any kind."""
    reads_all = part.address.kind == "arguments" or (given is not None and given[1].facts_limit_tokens > 0)
    return len(text) if reads_all else len(text) / 3


async def restore_texts(transcript: Transcript, memory: AgentMemory, seconds: float = _RESTORE_SECONDS) -> None:
    """Fetch, after a load, the texts and images that views need; compact whole parts that cannot be fetched."""
    state = transcript.state
    missing = [
        (entry, part)
        for entry in transcript.entries()
        if not state.is_hidden(entry.position)
        for part in entry.measured
        if part.address in entry.dropped
        and part.stored is not None
        and (entry.position, part.address) not in state.compacted
        and not (part.stored.excerpt is not None and (entry.position, part.address) in state.retained)
    ]
    if not missing:
        return
    contents: dict[str, str | Image] = {}
    try:
        kept = [(part.address, part.stored.refs[0].key) for _, part in missing if part.stored and part.stored.refs]
        contents = await asyncio.wait_for(fetch_parts(kept, memory), min(max(seconds, 0.5), _RESTORE_SECONDS))
    except (MemoryContextError, asyncio.TimeoutError) as error:
        _logger.warning("what the store has is shown compacted: %s", str(error) or "it did not answer in time")
    gone: list[PartId] = []
    for entry, part in missing:
        key = part.stored.refs[0].key if part.stored and part.stored.refs else ""
        if key in contents:
            entry.restore_texts({part.address: contents[key]})
        elif part.stored is not None and part.stored.excerpt is None:
            gone.append((entry.position, part.address))
    if gone:
        transcript.decide(PartsCompacted(tuple(gone), "unavailable"))


async def fetch_parts(kept: Iterable[tuple[Address, str]], memory: AgentMemory) -> dict[str, str | Image]:
    """Return texts and images of parts by key, as far as the store has them; raises StoreError."""
    texts: set[str] = set()
    images: set[str] = set()
    for address, key in kept:
        (images if address.kind == "image" else texts).add(key)
    found = await memory.retrieve_images(images, reader=None) if images else {}
    size = sum(map(len, found.values()))
    decoded = await in_thread_if_large(size, lambda: {key: image_from_bytes(data) for key, data in found.items()})
    return {**(await memory.retrieve_contents(texts, reader=None) if texts else {}), **decoded}
