"""Bringing stored content back into the view: decided when a message comes, shown with the next view.

    start (add_message) ─▶ decide (light model or rules) ─▶ read from the store ─▶ apply_decision (get_messages)

Promises: at most one light call for each view; a further message of the user replaces what was begun, words of agents
that name keys are read beside it; a view waits no longer than the light model's timeout and one of the store's, and a
second for passages to be chosen; whatever fails, the view comes, with what was finished by then.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from autogen_core.models import AssistantMessage, UserMessage

from ..light_model import LightModel
from ..memory import AgentMemory
from ..messages import source_of
from ..policy import ContextPolicy
from ..runtime import Background
from ..tokens import TokenCounter
from ..transcript import Decision, Entry, ExpansionShown, ExpansionWithdrawn, OpenedItem, Transcript
from .candidates import (
    CandidateReference,
    Expansion,
    ExpansionAnswer,
    candidate_references,
    expansion_request,
    head_and_tail,
    known_to_agent,
    named_keys,
    text_of,
    unknown_keys,
    without_keys,
)
from .decide import EXPANSIONS_LIMIT, decide
from .fetch import FetchedItem, Fetcher
from .prompt import check_template
from .render import render_retrieved

__all__ = ["Expander", "memory_decisions"]

_logger = logging.getLogger("memory_context")

_MOST_READS = 2 * EXPANSIONS_LIMIT  # of what was named and chosen; more would not be shown anyway
_TOKENS_OF_AN_ITEM = 200  # more items than the limit has room for at this size are not read
_KEYS_CHARACTERS = 20_000  # at each end of a message that are searched for keys: a few milliseconds
_REQUEST_CHARACTERS = 3000  # at each end of the words that passages are chosen by
_COMPOSE_SECONDS = 1.0  # what a view waits beyond the light model and the store, for passages to be chosen


class Expander:
    """Opens references of one transcript when the user, the agent or the request needs them.

    Args:
        transcript: What happened; the decision is recorded in it.
        memory: Where the content is.
        policy: Limits and waits.
        counter: Counts tokens.
        light_model: Decides; None to decide by rules.
        open_fold: Returns the text behind a fold's key of this session, None for any other key.
        is_store_away: Whether the store failed a moment ago; a step waits for it once.

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
        is_store_away: Callable[[], bool] = lambda: False,
    ) -> None:
        if policy.expansion.prompt is not None:
            check_template(policy.expansion.prompt)
        self.agent_has_tools = False
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._light_model = light_model
        self._fetcher = Fetcher(transcript, memory, policy, open_fold, is_store_away)
        self._asked: list[Entry] = []  # the user's words since the last view
        self._said: list[Entry] = []  # words of agents since the last view that name keys
        self._deciding = Background[ExpansionAnswer]("memory_context decision")
        self._decision: asyncio.Task[ExpansionAnswer] | None = None  # about the user's words
        self._expanding = Background[ExpansionShown | None]("memory_context expansion")
        self._task: asyncio.Task[ExpansionShown | None] | None = None  # waits for the decision, then reads
        self._composed: ExpansionShown | None = None  # what of it is finished
        self._views_waiting = 0
        self._answer: ExpansionAnswer | None = None  # the light model's since the last view
        self._calls_before = light_model.usage.calls if light_model else 0

    def observe(self, entry: Entry) -> None:
        """Record a message; cancel a decision that has not called the model, so consecutive ones share a call."""
        if self._task is not None and not self._is_asking():
            self._stop()
        if self._is_asked(entry):
            self._asked.append(entry)
            self._stop()
        elif self._may_name(entry) and self._names(entry):
            self._said.append(entry)
            self._give_up_expansion()  # a question under way is about the user's words and goes on

    def start(self) -> None:
        """Start to decide what the messages need that no view has followed yet."""
        if self._task is None and (self._asked or self._said):
            self._start()

    async def apply_decision(self, *, for_view: bool = True) -> None:
        """Record what was decided, once it is; waits no longer than the policy says.

        Args:
            for_view: Whether a view comes of it, after which the light model may be asked again.
        """
        if (self._asked or self._said) and self._running_task() is None:
            self._start()
        self._views_waiting += 1
        try:
            while self._asked or self._said:
                task = self._running_task() or self._start()
                if not task.done():
                    left = self._fetcher.deadline + _COMPOSE_SECONDS - time.monotonic()
                    await asyncio.wait([task], timeout=max(left, 0.0))
                if task is self._task:  # else a further message came meanwhile, or another view has recorded it
                    self._record(task)
        finally:
            self._views_waiting -= 1
        if for_view:
            self._calls_before = self._calls()

    def _record(self, task: asyncio.Task[ExpansionShown | None]) -> None:
        if task.done():
            expanded = None if task.cancelled() else task.result()
        else:
            expanded = self._composed
            if self._fetcher.is_waiting:
                self._fetcher.fail("the store did not answer in time")
            else:
                _logger.warning("what this message asks for is not all brought back: it took too long")
        self.cancel()
        # not into what the agent has answered: that would move all that follows
        if expanded is not None and expanded.position >= self._transcript.state.consumed:
            self._transcript.decide(expanded)

    def cancel(self) -> None:
        """Drop what is begun."""
        self._stop()
        self._asked, self._said, self._answer, self._composed = [], [], None, None

    def _running_task(self) -> asyncio.Task[ExpansionShown | None] | None:
        """Return what was begun; None if nothing was, or if the event loop it was begun in ended before it did."""
        return self._task if _is_usable(self._task) else None

    def _start(self) -> asyncio.Task[ExpansionShown | None]:
        self._give_up_expansion()
        self._composed = None
        if not self._views_waiting:  # a view does not wait the longer for what comes while it waits
            waits = self._policy.expansion.timeout_seconds + self._policy.store_timeout_seconds
            self._fetcher.deadline = time.monotonic() + waits
        if self._asked and not _is_usable(self._decision):
            asked = tuple(self._asked)
            self._decision = self._deciding.start(lambda: self._decided(asked))
        self._task = self._expanding.start(self._expand_safely)
        return self._task

    def _give_up_expansion(self) -> None:
        self._expanding.cancel()
        self._task = None

    def _stop(self) -> None:
        self._give_up_expansion()
        self._deciding.cancel()
        self._decision = None

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

    def _names(self, entry: Entry) -> bool:
        """Whether the words of an entry name a key, or what another session may have as one."""
        text = text_of(entry)
        if "_" not in text and "MemoryRef" not in text:  # the cheap question before the exact one
            return False
        return bool(self._keys_in(entry, self._offered(entry.position)))

    def _offered(self, end: int) -> dict[str, CandidateReference]:
        return {one.ref.key: one for one in candidate_references(self._transcript, end, self._policy)}

    # --- deciding

    async def _expand_safely(self) -> ExpansionShown | None:
        try:
            return await self._expand(tuple(self._asked), tuple(self._said))
        except Exception:  # whatever it is, the agent goes on
            _logger.exception("nothing more is brought back for this message")
        return self._composed

    async def _expand(self, asked: Sequence[Entry], said: Sequence[Entry]) -> ExpansionShown | None:
        answer, decision = ExpansionAnswer(), self._decision
        if asked and decision:
            await asyncio.wait([decision])
            answer = decision.result()
        entries = sorted((*asked, *said), key=lambda entry: entry.position)
        request = "\n".join(head_and_tail(text_of(entry), _REQUEST_CHARACTERS) for entry in entries)
        found: list[FetchedItem] = []
        if self._policy.expansion.enabled:
            wanted = [*answer.expansions, *self._named(entries, {expansion.key for expansion in answer.expansions})]
            wanted.sort(key=lambda expansion: expansion.reason != "named")
            limit = self._limit(self._policy.expansion.limit_tokens)
            found = await self._fetcher.items(wanted, max(limit // _TOKENS_OF_AN_ITEM, 1), _MOST_READS)
            found = await self._compose(entries[-1].position, found, request, limit)
        if answer.is_ambiguous and self._policy.recall.enabled and self._fetcher.is_open:
            query = answer.search_query or head_and_tail(request, _REQUEST_CHARACTERS)
            recalled = await self._fetcher.recall(query, {one.opened.key for one in found}, entries)
            limit = self._limit(self._policy.recall.limit_tokens)
            await self._compose(entries[-1].position, recalled, request, limit)
        return self._composed

    async def _compose(
        self, position: int, found: Sequence[FetchedItem], request: str, limit_tokens: int
    ) -> list[FetchedItem]:
        """Add what of this is shown to what is composed already; return it."""
        if not found:
            return []

        def compose() -> tuple[str, list[int], int]:
            words = without_keys(request, [one.opened.key for one in found])
            text, indexes = render_retrieved([one.piece for one in found], words, limit_tokens, self._counter)
            whole = f"{before.text}\n{text}" if before and text else text
            return whole, indexes, self._counter.count(whole)

        before = self._composed
        whole, indexes, tokens = await asyncio.to_thread(compose)
        shown = [found[index] for index in indexes]
        if shown:
            opened = (*(before.opened if before else ()), *(one.opened for one in shown))
            self._composed = ExpansionShown(position, whole, tokens, opened)
        return shown

    def _limit(self, limit_tokens: int) -> int:
        """Return a limit, in a small budget a quarter of it: nothing is to fold for what does not fit then."""
        view_limit = self._policy.view_limit_tokens
        return limit_tokens if view_limit is None else min(limit_tokens, view_limit // 4)

    async def _decided(self, asked: Sequence[Entry]) -> ExpansionAnswer:
        """Return what these words need: by the light model if it was not asked since the last view, else by rules.

        What it answered about the first of several messages still counts when rules decide about all of them.
        """
        turn = expansion_request(self._transcript, asked, self._policy)
        may_ask = not self._is_asking() and self._fetcher.is_open
        if not self._policy.recall.enabled:
            may_ask = may_ask and any(not reference.is_visible for reference in turn.references)
        answer = await decide(
            turn,
            self._light_model if may_ask else None,
            self._counter,
            prompt_template=self._policy.expansion.prompt,
            prompt_limit_tokens=self._policy.expansion.prompt_limit_tokens,
            masks_credentials=self._policy.mask_credentials,
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
        offered = self._offered(entries[-1].position + 1)
        named: dict[str, Expansion] = {}
        for entry in entries:
            who = "the agent" if isinstance(entry.message, AssistantMessage) else source_of(entry.message) or ""
            for key in self._keys_in(entry, offered):
                is_visible = key in offered and offered[key].is_visible
                if key not in known and not is_visible:
                    named.setdefault(key, Expansion(key, "named", f"named by {who}"))
        return list(named.values())

    def _keys_in(self, entry: Entry, offered: Collection[str]) -> list[str]:
        """Return the keys that the words of an entry name: those on offer, and what another session may have as one.

        Users and hand-offs may name a key of another session. An agent may have read it in a page, so that its words
        count only for keys that stood in its view as references, or that a user or a hand-off told it.
        """
        text = head_and_tail(text_of(entry), _KEYS_CHARACTERS)
        unknown = unknown_keys(text, offered)
        if isinstance(entry.message, AssistantMessage) and unknown:
            allowed = known_to_agent(self._transcript, unknown, entry.position)
            unknown = [key for key in unknown if key in allowed]
        return [*named_keys(text, offered), *unknown]


def _is_usable(task: "asyncio.Task[Any] | None") -> bool:
    """Whether a task has ended by itself or is going on, not in an event loop that ended before it did."""
    if task is None or task.cancelled():
        return False
    return task.done() or task.get_loop() is asyncio.get_running_loop()


def memory_decisions(transcript: Transcript, text: str, tokens: int, keys: Sequence[str], owner: str) -> list[Decision]:
    """Return the decisions that show a memory's text after the newest message instead of its previous one.

    An unchanged text stays where it is, so that no byte of the view moves.

    Args:
        transcript: Where it is shown.
        text: The text; "" for none.
        tokens: Its tokens.
        keys: The items it is from.
        owner: The memory; texts of other ones stay.
    """
    shown = transcript.state.expanded.values()
    before = [expanded for expanded in shown if expanded.origin == "memory" and expanded.owner == owner]
    if any(expanded.text == text for expanded in before):
        return []
    decisions: list[Decision] = []
    if before:
        decisions.append(ExpansionWithdrawn(tuple(expanded.place for expanded in before), "replaced"))
    if text and transcript.end > transcript.state.start:
        opened = tuple(OpenedItem(key, "added", "found by the agent's memory") for key in keys)
        decisions.append(ExpansionShown(transcript.end - 1, text, tokens, opened, "memory", owner))
    return decisions
