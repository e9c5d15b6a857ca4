"""Summaries of large results by the light model, made in the background.

    consider (once stored) ─▶ waiting ─▶ asked, one at a time ─▶ mended ─▶ take (ready to be shown)
                                                                    └──▶ written beside the item

Promises: nothing here raises into the agent or holds up a message; what the model does not answer, or answers badly,
leaves the compactor's choice as it is; a summary is checked against its source before anybody sees it. The content of
what waits is kept in the process until its summary is made, within a limit for all of it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from autogen_core.models import LLMMessage, SystemMessage, UserMessage
from pydantic import BaseModel, ConfigDict

from ..compaction import (
    INSTRUCTIONS,
    SUMMARY_SHARE,
    Hint,
    Result,
    check_summary_prompt,
    first_sentence,
    mended,
    summary_prompt,
)
from ..credentials import masked, masked_in_place, without_padding
from ..errors import LightModelError, StoreError
from ..light_model import LightModel
from ..memory import AgentMemory
from ..messages import Address
from ..policy import ContextPolicy
from ..runtime import Background
from ..transcript import Entry, Part, PartId

__all__ = ["Summariser", "SummaryReady"]

_logger = logging.getLogger("memory_context")

MOST_WAITING = 16
MOST_CHARACTERS = 16_000_000
"""Of all contents that wait; what has no room is not summarised."""
REFUSALS_ALLOWED = 3
"""Answers in a row that are no summary; then the model is asked no more: it cannot do it."""
_CLOSE_SECONDS = 1.0
_STORE_SECONDS = 5.0


@dataclass(frozen=True)
class SummaryReady:
    """A summary that can be shown in place of what a compactor kept.

    Attributes:
        position: The entry of the part.
        address: The part.
        text: The summary, mended; at most `summary_limit_tokens`.
        tokens: Tokens of it.
        description: What its item is called, if no view has shown its placeholder yet.
    """

    position: int
    address: Address
    text: str
    tokens: int
    description: str


class SummaryAnswer(BaseModel):
    """What the light model answers."""

    model_config = ConfigDict(extra="ignore")

    summary: str


@dataclass(eq=False)
class _Job:
    """A content to be summarised, and the parts that have it."""

    key: str
    result: Result
    hint: Hint
    places: list[PartId]
    is_done: bool = False


class Summariser:
    """Has large results of one transcript summarised.

    Args:
        memory: Where the items are; their summaries are written beside them.
        policy: What is large, and how long a summary may be.
        light_model: Summarises; None for never.
        decisions: The guard of the same client's decisions: while its breaker is open, nothing is asked here either.

    Attributes:
        is_unnamed: Whether no view has shown the placeholder of a part: the summary then says what its item is called.

    Raises:
        ValueError: The policy's prompt cannot be used.
    """

    def __init__(
        self,
        memory: AgentMemory,
        policy: ContextPolicy,
        light_model: LightModel | None,
        decisions: LightModel | None = None,
    ) -> None:
        if policy.compaction.summary_prompt is not None:
            check_summary_prompt(policy.compaction.summary_prompt)
        self._memory = memory
        self._policy = policy.compaction
        self._light_model = light_model
        self._decisions = decisions
        self._waiting: deque[_Job] = deque()
        self._asking = Background[None]("memory_context summary")
        self._job: _Job | None = None  # under way
        self._deadlines: dict[PartId, float] = {}
        self._made: dict[str, tuple[str, int]] = {}  # by key: the same content again is not summarised again
        self._ready: list[SummaryReady] = []
        self._unsaved: dict[str, tuple[str, str]] = {}
        self.is_unnamed: Callable[[PartId], bool] = lambda place: False
        self._refusals = 0
        self._warned: set[str] = set()

    def wants(self, part: Part) -> bool:
        """Whether a part is to be summarised: a large result, where the policy has a model summarise."""
        policy = self._policy
        return (
            self._light_model is not None
            and policy.enabled
            and policy.mode != "plugin"
            and part.is_result
            and part.tokens > policy.summarise_over_tokens
        )

    def consider(self, entry: Entry, part: Part, result: Result, hint: Hint, memory_key: str) -> None:
        """Begin to have a stored result summarised, if it is wanted and there is room; returns at once.

        Args:
            entry: Its entry.
            part: Its part.
            result: The result.
            hint: What the agent is about.
            memory_key: The item it was stored as.
        """
        place = (entry.position, part.address)
        if not self.wants(part) or place in self._deadlines:
            return
        if memory_key in self._made:
            self._offer([place], *self._made[memory_key])
            return
        job = next((job for job in self._jobs() if job.key == memory_key and not job.is_done), None)
        if job is None:
            characters = len(result.content) + sum(len(job.result.content) for job in self._jobs())
            if not self._is_asking() or len(self._waiting) >= MOST_WAITING or characters > MOST_CHARACTERS:
                return
            job = _Job(memory_key, result, replace(hint, known=""), [])
            self._waiting.append(job)
        job.places.append(place)
        self._deadlines[place] = time.monotonic() + self._policy.summary_timeout_seconds
        self._go_on()

    def is_pending(self, position: int, address: Address) -> bool:
        """Whether a summary of this part is under way and has been for less than `summary_timeout_seconds`."""
        return time.monotonic() < self._deadlines.get((position, address), 0.0)

    def take(self) -> list[SummaryReady]:
        """Return the summaries that were finished since the last call."""
        self._go_on()  # what was broken off with its event loop
        ready, self._ready = self._ready, []
        return ready

    async def close(self) -> None:
        """Wait a little for what is being asked, give up the rest, and write what is not written yet."""
        self._waiting.clear()
        await self._asking.wait(_CLOSE_SECONDS)
        self.forget()
        if self._unsaved:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._save(), _CLOSE_SECONDS)

    def forget(self) -> None:
        """Give up what waits and what is under way."""
        self._asking.cancel()
        self._job = None
        self._waiting.clear()
        self._deadlines.clear()

    # --- in the background

    def _is_asking(self) -> bool:
        guards = (self._light_model, self._decisions)
        return self._refusals < REFUSALS_ALLOWED and all(guard is None or guard.is_available for guard in guards)

    def _jobs(self) -> Iterable[_Job]:
        return (*([self._job] if self._job else []), *self._waiting)

    def _go_on(self) -> None:
        """Begin what waits, one at a time; first of all what broke off when its event loop ended."""
        try:
            is_asking = self._asking.running() is not None
        except RuntimeError:  # no event loop runs here
            return
        if not is_asking:
            if (job := self._job) is not None:
                self._job = None
                if not job.is_done:
                    self._waiting.appendleft(job)
                else:
                    self._close_places(job)
            if self._waiting:
                self._job = self._waiting.popleft()
                self._asking.start(self._ask_all)

    async def _ask_all(self) -> None:
        while (job := self._job) is not None:
            await self._work(job)
            if self._job is not job:  # was given up
                return
            self._close_places(job)
            self._job = self._waiting.popleft() if self._waiting else None

    def _close_places(self, job: _Job) -> None:
        for place in job.places:
            self._deadlines.pop(place, None)

    async def _work(self, job: _Job) -> None:
        """Summarise a content; whatever goes wrong, what the compactor kept stays."""
        try:
            summary = await self._summarised(job)
        except LightModelError:  # its guard has said so
            summary = None
        except Exception as error:
            self._warn("a result is not summarised: %s", error)
            summary = None
        job.is_done = True
        if summary is None:
            return
        text, tokens = summary
        self._made[job.key] = summary
        is_unnamed = all(self.is_unnamed(place) for place in job.places)
        self._unsaved[job.key] = text, first_sentence(text) if is_unnamed else ""
        self._offer(job.places, text, tokens)
        self._close_places(job)
        await self._save()

    async def _summarised(self, job: _Job) -> tuple[str, int] | None:
        """Return the summary of a content and its tokens; None if the model's answer is none.

        Raises:
            LightModelError: There is no answer.
        """
        if self._light_model is None or not self._is_asking():
            return None
        limit, counter = self._policy.summary_limit_tokens, job.hint.counter

        def messages() -> list[LLMMessage]:
            if job.hint.masks_credentials:  # once it is in a thread, since the content may be long
                job.result = replace(job.result, content=masked_in_place(job.result.content))
                job.hint = replace(job.hint, task=masked(job.hint.task), said=masked(job.hint.said))
            asked = summary_prompt(job.result, job.hint, int(limit * SUMMARY_SHARE), self._policy.summary_prompt)
            return [SystemMessage(content=INSTRUCTIONS), UserMessage(content=asked, source="memory")]

        def checked(summary: str) -> tuple[str, int] | None:
            spoken_of = f"{job.hint.task}\n{job.hint.said}\n{job.hint.answer}"
            summary = masked(summary) if job.hint.masks_credentials else summary
            text = mended(summary, job.result.content, limit, counter, spoken_of=spoken_of)
            text = None if text is None else without_padding(text)
            return None if text is None else (text, counter.count(text))

        # in threads, since both count and look through many thousand tokens
        answer = await self._light_model.ask(await asyncio.to_thread(messages), SummaryAnswer)
        made = await asyncio.to_thread(checked, answer.summary)
        self._refusals = 0 if made else self._refusals + 1
        if made is None:
            self._warn("the light model's answer is no summary of %s; what the compactor kept stays", job.key)
        return made

    def _offer(self, places: Iterable[PartId], text: str, tokens: int) -> None:
        name = first_sentence(text)
        self._ready += [SummaryReady(position, address, text, tokens, name) for position, address in places]

    async def _save(self) -> None:
        """Write summaries beside their items; those that cannot be go with the next one, or by `close`."""
        store = self._memory.memory_store
        for key, (text, description) in list(self._unsaved.items()):
            writing = store.update_model_summary(self._memory.user_id, key, text, description)
            try:
                await asyncio.wait_for(writing, _STORE_SECONDS)
            except (StoreError, asyncio.TimeoutError) as error:
                self._warn("summaries are not written beside their items for now: %s", str(error) or "too slow")
                return
            except Exception as error:
                self._warn("a summary is not written beside its item: %s", error)
            self._unsaved.pop(key, None)

    def _warn(self, text: str, detail: object) -> None:
        """Log each sort of trouble once."""
        if text not in self._warned:
            self._warned.add(text)
            _logger.warning(text, detail)
