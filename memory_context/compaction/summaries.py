"""Summaries of large results, made by the light model in the background.

    consider (once stored) ─▶ waiting ─▶ asked, one at a time ─▶ checked ─▶ ready ─▶ recorded
                                                                    └──▶ written beside the item

Nothing raises into the agent or delays a message. A compacted part keeps its text until something before it changes,
since an earlier change would cost more prompt cache than it saves.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from autogen_core.models import LLMMessage, SystemMessage, UserMessage
from pydantic import BaseModel, ConfigDict

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.compose import shown_arguments
from memory_context.foundation.compactors.summary_prompt import (
    INSTRUCTIONS,
    SUMMARY_SHARE,
    check_summary_prompt,
    first_sentence,
    mended,
    summary_prompt,
)
from memory_context.foundation.credentials.masks import masked, masked_in_place, without_padding
from memory_context.foundation.errors import LightModelError, StoreError
from memory_context.foundation.light_model import guards
from memory_context.foundation.light_model.model import LightModel
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import one_line
from memory_context.foundation.runtime.background import Background
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.entries import Entry, Part, PartId
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["Summariser"]

_logger = logging.getLogger("memory_context")

MOST_WAITING = 16
MOST_CHARACTERS = 16_000_000
"""Bound of all waiting contents together; further ones are not summarised."""
REFUSALS_ALLOWED = 3
"""Unusable answers in a row that end the asking."""
_SUMMARISE_OVER_TOKENS = 2_000
"""Larger results get a summary: facts of 280 tokens say most of a smaller one."""
_CLOSE_SECONDS = 1.0
_STORE_SECONDS = 5.0


class SummaryAnswer(BaseModel):
    """The light model's answer."""

    model_config = ConfigDict(extra="ignore")

    summary: str


@dataclass(frozen=True)
class _Summary:
    """A checked summary; its description has the arguments of the call and the first sentence."""

    text: str
    tokens: int
    description: str


@dataclass(eq=False)
class _Job:
    key: str
    result: Result
    hint: Hint
    places: list[PartId]
    is_done: bool = False


class Summariser:
    """Has large results of one transcript summarised and records checked summaries as their compacted text.

    Args:
        decisions: Guard of the same client's decisions: while its breaker is open, nothing is asked here.
    """

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        light_model: LightModel | None,
        decisions: LightModel | None = None,
    ) -> None:
        if policy.compaction.summary_prompt is not None:
            check_summary_prompt(policy.compaction.summary_prompt)
        self._transcript = transcript
        self._memory = memory
        self._policy = policy.compaction
        self._counter = counter
        self._light_model = light_model
        self._decisions = decisions
        self._waiting: deque[_Job] = deque()
        self._asking = Background[None]("memory_context summary")
        self._job: _Job | None = None
        self._deadlines: dict[PartId, float] = {}
        self._made: dict[str, _Summary] = {}  # by key, so equal content is summarised once
        self._ready: list[tuple[PartId, _Summary]] = []
        self._unsaved: dict[str, tuple[str, str]] = {}
        self._decisions_read = len(transcript.log)
        self._refusals = 0
        self._warned: set[str] = set()

    def wants(self, part: Part) -> bool:
        policy = self._policy
        return (
            self._light_model is not None
            and policy.enabled
            and policy.mode != "plugin"
            and part.is_result
            and part.tokens > _SUMMARISE_OVER_TOKENS
        )

    def consider(self, entry: Entry, part: Part, result: Result, hint: Hint, memory_key: str) -> None:
        """Queue the summary of a stored result if wanted and there is room."""
        place = (entry.position, part.address)
        if not self.wants(part) or place in self._deadlines:
            return
        if memory_key in self._made:
            self._ready.append((place, self._made[memory_key]))
            return
        job = next((job for job in self._jobs() if job.key == memory_key and not job.is_done), None)
        if job is None:
            characters = len(result.content) + sum(len(job.result.content) for job in self._jobs())
            if not self._is_asking() or len(self._waiting) >= MOST_WAITING or characters > MOST_CHARACTERS:
                return
            job = _Job(memory_key, result, replace(hint, known=""), [])
            self._waiting.append(job)
        job.places.append(place)
        self._deadlines[place] = time.monotonic() + guards.SUMMARY_SECONDS
        self._start_next()

    def is_held(self, part: PartId) -> bool:
        """Return whether a part must still wait for its summary."""
        return self._policy.mode == "model" and time.monotonic() < self._deadlines.get(part, 0.0)

    async def close(self) -> None:
        """Wait briefly for the running question, drop the rest, write unsaved summaries."""
        self._waiting.clear()
        await self._asking.wait(_CLOSE_SECONDS)
        self.forget()
        if self._unsaved:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._save(), _CLOSE_SECONDS)

    def forget(self) -> None:
        """Drop waiting and running jobs."""
        self._asking.cancel()
        self._job = None
        self._waiting.clear()
        self._deadlines.clear()

    # --- recording

    def record(self) -> bool:
        """Record the summaries that may be shown now; return whether a compacted part changes.

        Called before a view's changes are decided, for parts about to be compacted, and after, for later parts.
        """
        self._start_next()  # a job that died with its event loop
        changed_from, state = self._changed_from(), self._transcript.state
        ready, self._ready = self._ready, []
        is_shown = False
        for place, summary in ready:
            if place[0] < state.start or state.is_away(place[0]):
                continue  # no view shows it any more
            if state.retained.get(place) in ("age", "newer"):
                continue  # its room went to newer ones
            if place in state.compacted and place[0] >= changed_from:
                is_shown = True
                self._retain(place, summary)
            elif place in state.answered_whole:
                self._retain(place, summary)
            else:
                self._ready.append((place, summary))
        return is_shown

    def _retain(self, place: PartId, summary: _Summary) -> None:
        stored = self._transcript[place[0]].part(place[1]).stored
        if stored is None:
            return
        before, placeholder, _ = stored.compacted.partition(stored.refs[0].render())
        description = summary.description if self._is_unnamed(place) else ""
        if description:
            placeholder = replace(stored.refs[0], description=description).render()
        sentence = first_sentence(summary.text)
        rest = summary.text.removeprefix(sentence if description.endswith(sentence) else "").lstrip()
        text = f"{before}{placeholder}\n{rest}".rstrip()  # `before` holds the status of the call
        self._transcript.decide(CompactedTextChosen(*place, text, self._counter.count(text), "model", description))

    def _is_unnamed(self, place: PartId) -> bool:
        """Return whether no view has shown the part's placeholder."""
        position, address = place
        state = self._transcript.state
        if position < state.start or state.is_away(position) or place in state.compacted:
            return False
        part = self._transcript[position].part(address)
        return part.stored is not None and not 0 < part.stored.excerpt_tokens < part.tokens

    def _changed_from(self) -> int:
        """Return the first changed position since the last call, else the end.

        A planned compaction or a fold counts as changing everything.
        """
        decisions = [decision for _, decision in self._transcript.log[self._decisions_read :]]
        self._decisions_read = len(self._transcript.log)
        changed = [position for one in decisions if (position := one.changes_from(self._transcript)) is not None]
        return min(changed, default=self._transcript.end)

    # --- in the background

    def _is_asking(self) -> bool:
        guards = (self._light_model, self._decisions)
        return self._refusals < REFUSALS_ALLOWED and all(guard is None or guard.is_available for guard in guards)

    def _jobs(self) -> Iterable[_Job]:
        return (*([self._job] if self._job else []), *self._waiting)

    def _start_next(self) -> None:
        """Start the next job, first one that died with its event loop."""
        if self._job is None and not self._waiting:
            return
        try:
            if self._asking.running() is not None:
                return
        except RuntimeError:  # no event loop
            return
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
            if self._job is not job:  # dropped meanwhile
                return
            self._close_places(job)
            self._job = self._waiting.popleft() if self._waiting else None

    def _close_places(self, job: _Job) -> None:
        for place in job.places:
            self._deadlines.pop(place, None)

    async def _work(self, job: _Job) -> None:
        summary = None
        try:
            summary = await self._summarised(job)
        except LightModelError:  # its guard has logged it
            pass
        except Exception as error:
            self._warn("a result is not summarised: %s", error)
        job.is_done = True
        if summary is None:
            return
        self._made[job.key] = summary
        is_unnamed = all(self._is_unnamed(place) for place in job.places)
        self._unsaved[job.key] = summary.text, summary.description if is_unnamed else ""
        self._ready += [(place, summary) for place in job.places]
        self._close_places(job)
        await self._save()

    async def _summarised(self, job: _Job) -> _Summary | None:
        """Return the summary; None if the answer is unusable. Raises LightModelError."""
        if self._light_model is None or not self._is_asking():
            return None
        # in threads: both are slow for large texts
        answer = await self._light_model.ask(await asyncio.to_thread(self._messages, job), SummaryAnswer)
        summary = await asyncio.to_thread(self._checked, job, answer.summary)
        self._refusals = 0 if summary else self._refusals + 1
        if summary is None:
            self._warn("the light model's answer is no summary of %s; what the compactor kept stays", job.key)
        return summary

    def _messages(self, job: _Job) -> list[LLMMessage]:
        if job.hint.masks_credentials:
            job.result = replace(
                job.result,
                content=masked_in_place(job.result.content),
                arguments=masked(job.result.arguments),  # before their middle is elided
            )
            job.hint = replace(job.hint, task=masked(job.hint.task), said=masked(job.hint.said))
        limit_tokens = int(guards.SUMMARY_TOKENS * SUMMARY_SHARE)
        asked = summary_prompt(job.result, job.hint, limit_tokens, self._policy.summary_prompt)
        return [SystemMessage(content=INSTRUCTIONS), UserMessage(content=asked, source="memory")]

    def _checked(self, job: _Job, summary: str) -> _Summary | None:
        hint, counter = job.hint, job.hint.counter
        spoken_of = f"{hint.task}\n{hint.said}\n{hint.answer}"
        summary = masked(summary) if hint.masks_credentials else summary
        text = mended(summary, job.result.content, guards.SUMMARY_TOKENS, counter, spoken_of=spoken_of)
        text = None if text is None else without_padding(text)
        if text is None:
            return None
        asked, sentence = shown_arguments(job.result.arguments), first_sentence(text)
        return _Summary(text, counter.count(text), one_line(f"{asked}: {sentence}" if asked else sentence))

    async def _save(self) -> None:
        """Write summaries beside their items; failed ones stay for the next call."""
        store = self._memory.memory_store
        for key, (text, description) in list(self._unsaved.items()):
            writing = store.items.update_model_summary(self._memory.user_id, key, text, description)
            try:
                await asyncio.wait_for(writing, _STORE_SECONDS)
            except (StoreError, asyncio.TimeoutError) as error:
                self._warn("summaries are not written beside their items for now: %s", str(error) or "too slow")
                return
            except Exception as error:
                self._warn("a summary is not written beside its item: %s", error)
            self._unsaved.pop(key, None)

    def _warn(self, text: str, detail: object) -> None:
        """Log each kind of trouble once."""
        if text not in self._warned:
            self._warned.add(text)
            _logger.warning(text, detail)
