"""Bringing stored content back into the view: decided when a message comes, shown with the next view.

    begin (add_message) ─▶ decide (light model or rules) ─▶ read from the store ─▶ settle (get_messages) ─▶ decision

Promises: at most one light call for each view; a further message replaces what was begun; a view waits no longer than
the light model's timeout and one of the store's; whatever fails, the view comes, at worst without what was asked for.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autogen_core.models import AssistantMessage, UserMessage

from ..errors import MemoryContextError
from ..light_model import LightModel
from ..memory import AgentMemory, MemoryItem, SearchHit
from ..messages import source_of
from ..policy import ContextPolicy
from ..references import MemoryRef
from ..tokens import TokenCounter
from ..transcript import Entry, Expanded, Opened, Transcript
from .deciding import EXPANSIONS_LIMIT, decide
from .offer import offered_references, text_of, turn_request, visible_texts
from .opening import Piece, fenced
from .prompt import check_template
from .requests import Expansion, TurnAnswer
from .rules import named_keys, unknown_keys

__all__ = ["Expander"]

_logger = logging.getLogger("memory_context")

_MOST_READ = 2 * EXPANSIONS_LIMIT  # of what was named and chosen; more would not be shown anyway
_MORE_HITS = 50  # asked for beyond what is shown, since some may be in sight


@dataclass(frozen=True)
class _Found:
    """Something to be shown, and why it is."""

    piece: Piece
    opened: Opened


class Expander:
    """Opens references of one transcript when the user, the agent or the request needs them.

    Args:
        transcript: What happened; the decision is recorded in it.
        memory: Where the content is.
        policy: Limits and waits.
        counter: Counts tokens.
        light_model: Decides; None to decide by rules.
        open_fold: Returns the text behind a fold's key of this session, None for any other key.

    Raises:
        ValueError: The policy's prompt cannot be used.

    Attributes:
        agent_has_tools: Whether the agent can open references itself; its own words then open nothing.
    """

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        light_model: LightModel | None,
        open_fold: Callable[[str], str | None],
    ) -> None:
        if policy.expansion.prompt is not None:
            check_template(policy.expansion.prompt)
        self.agent_has_tools = False
        self._transcript = transcript
        self._memory = memory
        self._policy = policy
        self._counter = counter
        self._light_model = light_model
        self._open_fold = open_fold
        self._asked: list[Entry] = []  # the user's words since the last view
        self._said: list[Entry] = []  # words of agents since the last view, in which only keys count
        self._task: asyncio.Task[Expanded | None] | None = None
        self._began = 0.0
        self._closed_until = 0.0  # after the store failed: nothing is read for a while
        self._answer: TurnAnswer | None = None  # the light model's since the last view
        self._calls_before = light_model.usage.calls if light_model else 0

    def hold(self, entry: Entry | None) -> None:
        """Take a message in, and wait with what was begun and has not asked yet: one question for all of them is to do.

        Args:
            entry: The message; None if nothing was added after all.
        """
        if self._task is not None and not self._is_asking():
            self._cancel()
        if entry is not None and self._is_asked(entry):
            self._asked.append(entry)
        elif entry is not None and self._may_name(entry) and _could_name(text_of(entry)):
            self._said.append(entry)
        else:
            return
        self._cancel()

    def begin(self) -> None:
        """Start to decide what the messages need that no view has followed yet."""
        if self._task is None and (self._asked or self._said):
            self._start()

    async def settle(self, *, for_view: bool = True) -> None:
        """Record what was decided, once it is; waits no longer than the policy says.

        Args:
            for_view: Whether a view comes of it, after which the light model may be asked again.
        """
        deadline: float | None = None
        while self._asked or self._said:
            task = self._running_task() or self._start()
            if deadline is None:
                deadline = self._began + self._policy.expansion.timeout_seconds + self._policy.store_timeout_seconds
            if not task.done():
                await asyncio.wait([task], timeout=max(deadline - time.monotonic(), 0.0))
            if task is self._task:  # else a further message came meanwhile, or another view has recorded it
                self._record(task)
        if for_view:
            self._calls_before = self._calls()

    def _record(self, task: asyncio.Task[Expanded | None]) -> None:
        self._task, self._asked, self._said, self._answer = None, [], [], None
        if not task.done():
            task.cancel()
            self._fail("the store did not answer in time")
            return
        expanded = None if task.cancelled() else task.result()
        # not into what the agent has answered: that would move all that follows
        if expanded is not None and expanded.position >= self._transcript.standing.consumed:
            self._transcript.decide(expanded)

    def forget(self) -> None:
        """Drop what is begun."""
        self._cancel()
        self._asked, self._said, self._answer = [], [], None

    def _running_task(self) -> asyncio.Task[Expanded | None] | None:
        """Return what was begun; None if nothing was, or if the event loop it was begun in ended before it did."""
        task = self._task
        if task is None or task.cancelled():
            return None
        return task if task.done() or task.get_loop() is asyncio.get_running_loop() else None

    def _start(self) -> asyncio.Task[Expanded | None]:
        self._cancel()
        self._began = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._expand_safely(), name="memory_context expansion")
        return self._task

    def _cancel(self) -> None:
        if self._task is not None:
            with suppress(RuntimeError):  # its event loop may have ended
                self._task.cancel()
        self._task = None

    def _calls(self) -> int:
        return self._light_model.usage.calls if self._light_model else 0

    def _is_asking(self) -> bool:
        """Whether the light model was asked since the last view."""
        return self._calls() > self._calls_before

    def _is_asked(self, entry: Entry) -> bool:
        if not (self._policy.expansion.enabled or self._policy.recall.enabled):
            return False
        is_user = isinstance(entry.message, UserMessage) and entry.message.source in self._policy.user_sources
        return is_user and not entry.carries_result

    def _may_name(self, entry: Entry) -> bool:
        """Whether keys in these words count: those of a hand-off and of an agent that has no tools, never a tool's."""
        if not self._policy.expansion.enabled:
            return False
        if isinstance(entry.message, AssistantMessage):
            return not self.agent_has_tools
        return isinstance(entry.message, UserMessage) and not entry.carries_result

    # --- deciding

    async def _expand_safely(self) -> Expanded | None:
        try:
            return await self._expand(tuple(self._asked), tuple(self._said))
        except Exception:  # whatever it is, the agent goes on
            _logger.exception("nothing is brought back for this message")
        return None

    async def _expand(self, asked: Sequence[Entry], said: Sequence[Entry]) -> Expanded | None:
        answer = await self._decided(asked) if asked else TurnAnswer()
        entries = sorted((*asked, *said), key=lambda entry: entry.position)
        request = "\n".join(text_of(entry) for entry in entries)
        found, text = list[_Found](), ""
        if self._policy.expansion.enabled:
            wanted = [*answer.expansions, *self._named(entries, {expansion.key for expansion in answer.expansions})]
            found = await self._read(wanted[:_MOST_READ])
            text, count = await self._fenced(found, request, self._policy.expansion.limit_tokens)
            found = found[:count]
        opened, texts = [one.opened for one in found], [text]
        if answer.is_ambiguous and self._policy.recall.enabled and self._is_readable():
            recalled = await self._recall(answer.search_query or request, {one.opened.key for one in found}, entries)
            text, count = await self._fenced(recalled, request, self._policy.recall.limit_tokens)
            opened += [one.opened for one in recalled[:count]]
            texts.append(text)
        if not opened:
            return None
        whole = "\n".join(filter(None, texts))
        return Expanded(entries[-1].position, whole, self._counter.count(whole), tuple(opened))

    async def _decided(self, asked: Sequence[Entry]) -> TurnAnswer:
        """Return what these words need: by the light model if it was not asked since the last view, else by rules.

        What it answered about the first of several messages still counts when rules decide about all of them.
        """
        turn = turn_request(self._transcript, asked, self._policy)
        may_ask = not self._is_asking() and self._is_readable()
        if not self._policy.recall.enabled:
            may_ask = may_ask and any(not reference.is_visible for reference in turn.references)
        answer = await decide(
            turn,
            self._light_model if may_ask else None,
            self._counter,
            prompt_template=self._policy.expansion.prompt,
            prompt_limit_tokens=self._policy.expansion.prompt_limit_tokens,
        )
        if answer.decided_by == "model":
            self._answer = answer
        elif before := self._answer:
            known = {expansion.key for expansion in before.expansions}
            more = (expansion for expansion in answer.expansions if expansion.key not in known)
            answer = replace(
                answer,
                expansions=(*before.expansions, *more),
                is_ambiguous=answer.is_ambiguous or before.is_ambiguous,
                search_query=answer.search_query or before.search_query,
            )
        return answer

    def _named(self, entries: Sequence[Entry], known: set[str]) -> list[Expansion]:
        """Return the keys that these words name: of this session, or such as another session may have made."""
        end = entries[-1].position + 1
        offered = {one.ref.key: one for one in offered_references(self._transcript, end, self._policy)}
        named: dict[str, Expansion] = {}
        for entry in entries:
            text = text_of(entry)
            who = "the agent" if isinstance(entry.message, AssistantMessage) else source_of(entry.message) or ""
            for key in (*named_keys(text, offered), *unknown_keys(text, offered)):
                is_visible = key in offered and offered[key].is_visible
                if key not in known and not is_visible:
                    named.setdefault(key, Expansion(key, "named", f"named by {who}"))
        return list(named.values())

    # --- reading

    async def _read(self, wanted: Sequence[Expansion]) -> list[_Found]:
        found: list[_Found] = []
        for expansion in wanted:
            opened = Opened(expansion.key, expansion.reason, expansion.why)
            folded = self._open_fold(expansion.key)
            if folded is not None:
                found.append(_Found(Piece(f"{expansion.key} ({expansion.why})", folded), opened))
            elif (item := await self._retrieve(expansion.key)) and not self._is_open(item):
                found.append(_Found(Piece(f"{item.ref.render()} ({expansion.why})", item.content), opened))
        return found

    async def _retrieve(self, key: str) -> MemoryItem | None:
        try:
            return await self._memory.retrieve(key) if self._is_readable() else None
        except MemoryContextError as error:
            self._fail(str(error))
            return None

    async def _recall(self, query: str, shown: set[str], entries: Sequence[Entry]) -> list[_Found]:
        """Return the best passages of the user's memory that are not in sight."""
        transcript, most = self._transcript, self._policy.recall.passages
        offered = offered_references(transcript, transcript.end, self._policy)
        in_sight = {one.ref.key for one in offered if one.is_visible}
        asked = {ref.key for entry in entries for part in entry.measured if part.stored for ref in part.stored.refs}
        left_out = shown | in_sight | asked
        try:
            hits = await self._memory.search(query, limit=most + min(len(left_out), _MORE_HITS))
        except MemoryContextError as error:
            self._fail(str(error))
            return []
        hits = [hit for hit in hits if hit.is_relevant and hit.item.key not in left_out]
        texts = [*visible_texts(transcript, transcript.entries(), self._policy)] if hits else []
        new = [hit for hit in hits if not any(hit.passage.strip() in text for text in texts)]
        return [_Found(_recalled(hit), Opened(hit.item.key, "recalled", _why_recalled(query))) for hit in new[:most]]

    def _is_open(self, item: MemoryItem) -> bool:
        """Whether an expansion that is still shown has the whole of an item."""
        return any(
            item.content in expanded.text and any(opened.key == item.key for opened in expanded.opened)
            for expanded in self._transcript.standing.expanded.values()
        )

    def _fail(self, why: str) -> None:
        self._closed_until = time.monotonic() + self._policy.store_retry_seconds
        _logger.warning("what this message asks for is not all brought back: %s", why)

    def _is_readable(self) -> bool:
        """Whether the store may be asked: it has not just failed."""
        return time.monotonic() >= self._closed_until

    async def _fenced(self, found: Sequence[_Found], request: str, limit_tokens: int) -> tuple[str, int]:
        if not found:
            return "", 0
        pieces = [one.piece for one in found]
        return await asyncio.to_thread(fenced, pieces, request, limit_tokens, self._counter)


def _could_name(text: str) -> bool:
    """Whether a text could name a key; the cheap question before the exact one."""
    return "_" in text or "MemoryRef" in text


def _recalled(hit: SearchHit) -> Piece:
    item: MemoryItem = hit.item
    ref: MemoryRef = item.ref
    when = f"{item.created_at:%Y-%m-%d %H:%M} UTC"
    label = f"{ref.render()} (recalled; from {item.source}, {when}, lines {hit.start_line}-{hit.end_line})"
    return Piece(label, hit.passage, hit.start_line)


def _why_recalled(query: str) -> str:
    return f"recalled for {query[:60]!r}"
