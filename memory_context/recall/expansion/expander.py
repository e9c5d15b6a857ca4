"""Brings stored content back into the view: decided when a message comes, shown with the next view.

    idle ──observe──▶ waiting ──start──▶ deciding ──▶ fetching ──▶ composed ──apply_decision──▶ idle
                         ▲                   │            │
                         └─────observe───────┴────────────┘      restarts the expansion, and after a user's
                                                                 message the decision
    any ──cancel──▶ idle

Rules decide at once, and a round that brings nothing back starts no task. At most one light call per view. The view
waits for the timeouts of light model and store plus a second, and comes with the items finished by then.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_core.models import AssistantMessage, UserMessage

from memory_context.compaction.offloader import Offloader
from memory_context.foundation.light_model import guards
from memory_context.foundation.light_model.model import LightModel
from memory_context.foundation.messages import source_of
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import Background, in_thread_if_large
from memory_context.foundation.text.statements import adds_nothing, is_courtesy
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.values import OpenedItem
from memory_context.sessions.transcript.view_decisions import ExpansionShown, ExpansionWithdrawn

from .ambiguity import asks_something
from .candidates import (
    Expansion,
    ExpansionAnswer,
    ExpansionRequest,
    References,
    head_and_tail,
    known_to_agent,
    named_keys,
    unknown_keys,
    without_keys,
)
from .decide import EXPANSIONS_LIMIT, decide, decide_by_rules, needs_model
from .fetch import FetchedItem, Fetcher
from .negation import without_negated
from .render import render_retrieved

__all__ = ["Expander", "memory_decisions"]

_logger = logging.getLogger("memory_context")

_MOST_READS = 2 * EXPANSIONS_LIMIT
_TOKENS_OF_AN_ITEM = 200
_CHARACTERS_OF_A_REFERENCE = 5000  # reading it takes as long as counting these
_KEYS_CHARACTERS = 20_000  # searched for keys at both message ends
_COMPOSE_SECONDS = 1.0  # for choosing passages
_RECALL_TOKENS = 2000
"""The most that recalled passages take: ten of them found .921 of LoCoMo's answers, five in 800 tokens .779."""

_DECISION, _EXPANSION = "decision", "expansion"


@dataclass
class _Round:
    """The messages since the last view, and their tasks.

    Attributes:
        asked: Messages of the user, and of agents that ask something; the input of `decision` or `by_rules`.
        said: Other messages of agents that name keys.
        by_rules: The decision if no light model is asked.
        is_settled: There is nothing to bring back.
        model_answer: Outlives later decisions by rules.
    """

    asked: list[Entry] = field(default_factory=list[Entry])
    said: list[Entry] = field(default_factory=list[Entry])
    by_rules: ExpansionAnswer | None = None
    decision: asyncio.Task[Any] | None = None
    expansion: asyncio.Task[Any] | None = None
    is_settled: bool = False
    model_answer: ExpansionAnswer | None = None
    composed: ExpansionShown | None = None

    @property
    def is_idle(self) -> bool:
        return not (self.asked or self.said)

    @property
    def entries(self) -> list[Entry]:
        return sorted((*self.asked, *self.said), key=lambda entry: entry.position)


class Expander:
    """Expands references of one transcript.

    Args:
        offloader: Tells whether the store just failed; each step waits for it only once.

    Attributes:
        agent_has_tools: The agent opens references itself, so its words expand nothing.
    """

    def __init__(
        self,
        transcript: Transcript,
        memory: AgentMemory,
        policy: ContextPolicy,
        counter: TokenCounter,
        light_model: LightModel | None,
        offloader: Offloader,
    ) -> None:
        self.agent_has_tools = False
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._light_model = light_model
        self._references = References(transcript, policy)
        self._references.read()  # a loaded session, before its first message
        self._fetcher = Fetcher(transcript, self._references, memory, policy, offloader)
        self._work = Background[Any]("memory_context expansion")
        self._round = _Round()
        self._views_waiting = 0
        self._calls_before_view = self._calls
        self._observed_at = 0.0

    def observe(self, entry: Entry) -> None:
        """Record a message; cancel an unasked decision, so consecutive messages share a call."""
        self._observed_at = time.monotonic()
        if (self._round.expansion or self._round.is_settled) and not self._has_asked_model:
            self._stop()
        if self._is_request(entry):
            self._round.asked.append(entry)
            self._stop()
        elif self._may_name(entry) and self._keys_in(entry, entry.position):
            self._round.said.append(entry)
            self._stop_expansion()  # the decision is about the user's words

    async def start(self) -> None:
        """Read the words of the references that arrived, in a thread if they are many, and begin the round."""
        self._references.read()
        unread, self._references.unread = self._references.unread, []
        await in_thread_if_large(_CHARACTERS_OF_A_REFERENCE * len(unread), lambda: [one.words for one in unread])
        if not (self._round.expansion or self._round.is_settled or self._round.is_idle):
            self._begin(self._observed_at)  # a step's waits for the store count, else a view would wait for their sum

    async def apply_decision(self, *, for_view: bool = True) -> None:
        """Await the decision, within its timeout, and record it. Only `for_view` allows another light call."""
        if not self._round.is_idle and _usable(self._round.expansion) is None:
            self._begin()  # before waiting: the deadline begins now
        self._views_waiting += 1
        try:
            while not self._round.is_idle and (task := _usable(self._round.expansion) or self._begin()):
                if not task.done():
                    left = self._fetcher.deadline + _COMPOSE_SECONDS - time.monotonic()
                    await asyncio.wait([task], timeout=max(left, 0.0))
                if task is self._round.expansion:  # else restarted, or recorded by another view
                    self._record(task)
        finally:
            self._views_waiting -= 1
        if self._round.is_settled:
            self.cancel()
        if for_view:
            self._calls_before_view = self._calls

    def cancel(self) -> None:
        self._stop()
        self._round = _Round()

    def _begin(self, began_at: float | None = None) -> "asyncio.Task[Any] | None":
        """Start the task of the round, whose time began now or earlier; None if there is nothing to bring back."""
        if self._round.is_settled:
            return None
        self._stop_expansion()
        self._round.composed = None
        if not self._views_waiting:  # a waiting view keeps its deadline
            waits = guards.DECISION_SECONDS + self._policy.store_timeout_seconds
            self._fetcher.deadline = (time.monotonic() if began_at is None else began_at) + waits
        current = self._round
        current.is_settled = self._has_nothing_for(current)
        if current.is_settled:
            return None
        current.expansion = self._work.start(lambda: self._expand_safely(current), _EXPANSION)
        return current.expansion

    def _stop_expansion(self) -> None:
        if self._round.expansion is not None:
            self._work.cancel(_EXPANSION)
        self._round.expansion, self._round.is_settled = None, False

    def _stop(self) -> None:
        if self._round.decision is not None:
            self._work.cancel(_DECISION)
        self._round.decision = self._round.by_rules = None
        self._stop_expansion()

    def _record(self, task: "asyncio.Task[Any]") -> None:
        composed = self._round.composed
        if not task.done() and self._fetcher.is_waiting:
            self._fetcher.fail("the store did not answer in time")
        elif not task.done():
            _logger.warning("what this message asks for is not all brought back: it took too long")
        elif task.cancelled():
            composed = None
        self.cancel()
        # never into answered messages: all that follows would move
        if composed is not None and composed.position >= self._transcript.state.consumed:
            self._transcript.decide(composed)

    @property
    def _calls(self) -> int:
        return self._light_model.usage.calls if self._light_model else 0

    @property
    def _has_asked_model(self) -> bool:
        """True if asked since the last view."""
        return self._calls > self._calls_before_view

    def _has_nothing_for(self, current: _Round) -> bool:
        try:
            if current.asked and current.by_rules is None and _usable(current.decision) is None:
                self._decide(current)
            return current.decision is None and not self._brings_back(current)
        except Exception:
            _logger.exception("nothing is brought back for this message")
            return True

    def _decide(self, current: _Round) -> None:
        """Decide by rules, or start a task that asks the light model, once per view."""
        request = self._references.request(current.asked)
        by_rules = decide_by_rules(request)
        may_ask = not self._has_asked_model and self._fetcher.is_open and needs_model(request, by_rules)
        if may_ask and self._light_model is not None:
            current.decision = self._work.start(lambda: self._ask(current, request), _DECISION)
        else:
            current.decision, current.by_rules = None, _joined(current, by_rules)

    async def _ask(self, current: _Round, request: ExpansionRequest) -> ExpansionAnswer:
        answer = await decide(request, self._light_model, self._counter)
        if answer.decided_by == "model":
            current.model_answer = answer
            return answer
        return _joined(current, answer)

    def _brings_back(self, current: _Round) -> bool:
        answer = current.by_rules or ExpansionAnswer()
        recalls = answer.is_ambiguous and self._fetcher.is_open
        return recalls or bool(self._wanted(answer, current.entries))

    def _wanted(self, answer: ExpansionAnswer, entries: Sequence[Entry]) -> list[Expansion]:
        wanted = [*answer.expansions, *self._named(entries, {expansion.key for expansion in answer.expansions})]
        return sorted(wanted, key=lambda expansion: expansion.reason != "named")

    async def _expand_safely(self, current: _Round) -> None:
        try:
            await self._expand(current, current.entries)
        except Exception:
            _logger.exception("nothing more is brought back for this message")

    async def _expand(self, current: _Round, entries: Sequence[Entry]) -> None:
        answer, decision = current.by_rules or ExpansionAnswer(), current.decision
        if decision is not None:
            await asyncio.wait([decision])
            answer = decision.result()
        request = "\n".join(head_and_tail(entry.words) for entry in entries)
        found: list[FetchedItem] = []
        if wanted := self._wanted(answer, entries):
            limit = self._limit(self._policy.expansion.limit_tokens)
            found = await self._fetcher.items(wanted, max(limit // _TOKENS_OF_AN_ITEM, 1), _MOST_READS)
            found = await self._compose(current, entries[-1].position, found, request, limit)
        if answer.is_ambiguous and self._fetcher.is_open:
            query = answer.search_query or head_and_tail(request)
            known = {one.opened.key for one in found}
            concluded = await self._fetcher.conclusions(query, known) if answer.asks_for_said else []
            recalled = await self._fetcher.recall(query, known, entries)
            told = [one.retrieved.content for one in recalled]
            recalled = [one for one in concluded if not adds_nothing(one.retrieved.content, told)] + recalled
            limit = self._limit(_RECALL_TOKENS)
            await self._compose(current, entries[-1].position, recalled, request, limit, by_rank=True)

    async def _compose(
        self,
        current: _Round,
        position: int,
        found: Sequence[FetchedItem],
        request: str,
        limit_tokens: int,
        *,
        by_rank: bool = False,
    ) -> list[FetchedItem]:
        """Return the items that fit."""
        if not found:
            return []
        before = current.composed

        def compose() -> tuple[str, list[int], int]:
            words = without_keys(request, [one.opened.key for one in found])
            pieces = [one.retrieved for one in found]
            text, indexes = render_retrieved(pieces, words, limit_tokens, self._counter, by_rank=by_rank)
            whole = f"{before.text}\n{text}" if before and text else text
            return whole, indexes, self._counter.count(whole)

        whole, indexes, tokens = await asyncio.to_thread(compose)
        shown = [found[index] for index in indexes]
        if shown:
            opened = (*(before.opened if before else ()), *(one.opened for one in shown))
            current.composed = ExpansionShown(position, whole, tokens, opened)
        return shown

    def _limit(self, limit_tokens: int) -> int:
        """Cap at a quarter of the budget, so expansions cause no fold."""
        view_limit = self._policy.view_limit_tokens
        return limit_tokens if view_limit is None else min(limit_tokens, view_limit // 4)

    def _is_request(self, entry: Entry) -> bool:
        if not self._policy.expansion.enabled:
            return False
        if not isinstance(entry.message, UserMessage) or entry.carries_result:
            return False
        if entry.message.source in self._policy.user_sources:
            return not is_courtesy(entry.words)  # which loads no rules and asks no light model
        return asks_something(head_and_tail(entry.words), is_users=False)

    def _may_name(self, entry: Entry) -> bool:
        """Keys count in hand-offs and agents without tools, never in results."""
        if not self._policy.expansion.enabled:
            return False
        if isinstance(entry.message, AssistantMessage):
            return not self.agent_has_tools
        return isinstance(entry.message, UserMessage) and not entry.carries_result

    def _named(self, entries: Sequence[Entry], known: set[str]) -> list[Expansion]:
        named: dict[str, Expansion] = {}
        for entry in entries:
            who = "the agent" if isinstance(entry.message, AssistantMessage) else source_of(entry.message) or ""
            for key, is_visible in self._keys_in(entry, entries[-1].position + 1).items():
                if key not in known and not is_visible:
                    named.setdefault(key, Expansion(key, "named", f"named by {who}"))
        return list(named.values())

    def _keys_in(self, entry: Entry, end: int) -> dict[str, bool]:
        """Return the keys that a message names, each with whether the view shows its item.

        An agent's unknown keys count only if it was given them. A key that is not to be opened counts nowhere.
        """
        if "_" not in entry.words:  # as in most messages; each key has one
            return {}
        text, _ = without_negated(head_and_tail(entry.words, _KEYS_CHARACTERS))
        if not self._references.are_named_in(text):
            return {}
        candidates = {one.ref.key: one.is_visible for one in self._references.before(end)}
        unknown = unknown_keys(text, candidates)
        if isinstance(entry.message, AssistantMessage) and unknown:
            allowed = known_to_agent(self._transcript, unknown, entry.position)
            unknown = [key for key in unknown if key in allowed]
        return {key: candidates.get(key, False) for key in (*named_keys(text, candidates), *unknown)}


def _usable(task: "asyncio.Task[Any] | None") -> "asyncio.Task[Any] | None":
    """Return None if the task's event loop ended."""
    if task is None or task.cancelled() or not (task.done() or task.get_loop() is asyncio.get_running_loop()):
        return None
    return task


def _joined(current: _Round, by_rules: ExpansionAnswer) -> ExpansionAnswer:
    """Add the model's earlier answer of this round."""
    before = current.model_answer
    if before is None:
        return by_rules
    known = {expansion.key for expansion in before.expansions}
    return replace(
        by_rules,
        expansions=(*before.expansions, *(one for one in by_rules.expansions if one.key not in known)),
        is_ambiguous=by_rules.is_ambiguous or before.is_ambiguous,
        search_query=by_rules.search_query or before.search_query,
    )


def memory_decisions(transcript: Transcript, text: str, tokens: int, keys: Sequence[str], owner: str) -> list[Decision]:
    """Return decisions that move a memory's text after the newest message; "" shows none.

    An unchanged text stays in place.
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
