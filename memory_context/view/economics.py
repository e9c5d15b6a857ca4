"""Plans the changes of a view that pay with a prompt cache, and when the first one pays for the memory's tools.

    saved = removed tokens x expected calls x cached price
    costs = (write price - cached price) x tokens read anew (and a prefix that alone is too short to be cached)

Nothing is cached behind a result answered just now, so it is compacted at once if that saves anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memory_context.compaction import compactor_input
from memory_context.foundation.messages import source_of
from memory_context.foundation.policy import CachePolicy, ContextPolicy
from memory_context.foundation.text.documents import is_document
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen, PartsCompacted
from memory_context.sessions.transcript.state import TranscriptState
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.values import Arithmetic
from memory_context.sessions.transcript.view_decisions import ExpansionWithdrawn, UserMemoryLoaded, subject_line

from .render import Renderer, View, ViewMessage
from .view import Segment

__all__ = [
    "LEAST_PREFIX_TOKENS",
    "Savings",
    "aged_results",
    "ageing_of",
    "arithmetic_of",
    "expected_calls",
    "is_cache_cold",
    "pays_for_tools",
    "record",
    "saving_changes",
]


LEAST_PREFIX_TOKENS = 1024
"""A shorter common prefix, `reserved_tokens` included, is not cached: the rule of Anthropic and OpenAI."""

_FACTS_IN_VIEW_TOKENS = 4000
"""The most that the facts of all results take together; without a limit they were 64 to 74 kB after 22 rounds."""

FACTS_SHARE_KEPT = 0.4
"""Share of that left after dropping the oldest facts; low, so that drops are rare."""

LEAST_EXPECTED_CALLS = 6
"""Estimate for a session that has just begun."""

MOST_LOST_SHARE = 0.05
"""The most that the call that brings the memory's tools loses, of the cost of keeping everything so far."""


@dataclass(frozen=True)
class _Change:
    index: int
    removed_tokens: int
    parts: tuple[PartId, ...] = ()
    superseded: tuple[CompactedTextChosen, ...] = ()
    places: tuple[tuple[int, str], ...] = ()


def expected_calls(transcript: Transcript, policy: CachePolicy) -> int:
    """Return the estimated calls still to come: as many as so far, with a minimum (Gott, Nature 363, 1993)."""
    if policy.expected_calls is not None:
        return policy.expected_calls
    return max(transcript.state.answers, LEAST_EXPECTED_CALLS)


def arithmetic_of(removed: int, rewritten: int, calls: int, policy: CachePolicy) -> Arithmetic:
    """Return costs and savings of a change."""
    saved = removed * calls * policy.cached_price_ratio
    costs = rewritten * max(policy.write_price_ratio - policy.cached_price_ratio, 0.0)
    return Arithmetic(removed, rewritten, calls, round(saved - costs, 1))


def is_cache_cold(transcript: Transcript, policy: CachePolicy) -> bool:
    """Return whether the last call is longer ago than a cache entry lives."""
    return transcript.pause_seconds(transcript.end - 1) >= policy.ttl_seconds


def pays_for_tools(transcript: Transcript, view: View, policy: ContextPolicy, tools_tokens: int) -> bool:
    """Return whether reduced results pay for the tools that read them.

    These stand first, so the next call reads everything anew. It may lose a twentieth of what keeping everything has
    cost so far: a session that ends right then has not become much dearer.
    """
    if not transcript.state.has_items:
        return False
    if view.has_references:
        return True
    state, prices = transcript.state, policy.cache
    now = later = 0
    for message in view.messages:
        for segment in message.segments:
            if segment.keys and segment.part is not None:
                compacted = _compacted_tokens(transcript, segment.part)
                is_fresh = segment.position >= state.consumed
                now += segment.full_tokens - (
                    _first_tokens(transcript, policy, segment.part) if is_fresh else compacted
                )
                later += segment.full_tokens - compacted
    write, read = prices.write_price_ratio, prices.cached_price_ratio
    cached = view.tokens_before(view.index_at(state.shown)) + state.offered.own_tokens
    loss = (tools_tokens - now) * write + cached * (write - read)
    gain = (later - tools_tokens) * read * expected_calls(transcript, prices)
    whole = transcript.full_tokens(state.start, transcript.end) + state.offered.own_tokens
    spent = whole * (write + read * state.answers / 2)
    return loss < min(gain, MOST_LOST_SHARE * spent)


def _first_tokens(transcript: Transcript, policy: ContextPolicy, part_id: PartId) -> int:
    """Return roughly the tokens of a whole part's first view."""
    entry = transcript[part_id[0]]
    part = entry.part(part_id[1])
    text = entry.text(part_id[1]) or ""
    is_reduced = part.stored is not None and part.is_result
    if not is_reduced or policy.shows_whole(entry.tool_of(part_id[1]), part.tokens, lambda: is_document(text)):
        return part.tokens + part.overhead_tokens
    return policy.excerpt_limit_tokens + part.overhead_tokens


def _compacted_tokens(transcript: Transcript, part_id: PartId) -> int:
    """Return roughly the tokens of a whole part once it is compacted."""
    part = transcript[part_id[0]].part(part_id[1])
    whole = part.tokens + part.overhead_tokens
    if part.stored is None or not part.is_result:
        return whole
    facts = 0 if part_id in transcript.state.retained else min(compactor_input.FACTS_LIMIT_TOKENS, part.tokens // 5)
    return min(part.stored.compacted_tokens + facts + part.overhead_tokens, whole)


def saving_changes(
    transcript: Transcript,
    view: View,
    policy: ContextPolicy,
    is_held: Callable[[PartId], bool],
    counter: TokenCounter,
    is_cold: bool = False,
) -> list[Decision]:
    """Return the compactions and withdrawals that pay now, except parts with `is_held`.

    Args:
        is_cold: Nothing of the view is in the prompt cache.
    """
    changes = _changes(transcript, view, policy, is_held, counter)
    if not changes:
        return []
    calls = expected_calls(transcript, policy.cache)
    seen = _SeenTokens(transcript, view)
    cached = seen.before(len(view.messages))
    least = max(LEAST_PREFIX_TOKENS - policy.reserved_tokens, 0)
    removed = 0
    best: tuple[Arithmetic, int] | None = None
    for number in range(len(changes) - 1, -1, -1):
        removed += changes[number].removed_tokens
        before = seen.before(changes[number].index)
        uncached = before if before < least <= cached else 0
        rewritten = 0 if is_cold else cached - before - removed + uncached
        sum_ = arithmetic_of(removed, rewritten, calls, policy.cache)
        if sum_.net > (best[0].net if best else 0.0):
            best = sum_, number
    return [] if best is None else _decisions(changes[best[1] :], best[0], transcript.state)


def aged_results(transcript: Transcript, counter: TokenCounter) -> list[CompactedTextChosen]:
    """Return the oldest results without facts, once all facts exceed their limit."""
    facts, limit = transcript.state.facts, _FACTS_IN_VIEW_TOKENS
    total = sum(facts.values())
    aged: list[CompactedTextChosen] = []
    if total > limit:
        for position, address in sorted(facts):
            if total <= limit * FACTS_SHARE_KEPT:
                break
            stored = transcript[position].part(address).stored
            bare = stored.compacted.partition("\n")[0] if stored else ""
            total -= facts[position, address]
            aged.append(CompactedTextChosen(position, address, bare, counter.count(bare), "age"))
    return aged


def ageing_of(
    aged: Sequence[CompactedTextChosen], transcript: Transcript, view: View, policy: ContextPolicy
) -> PartsCompacted:
    """Return the decision that shows aged results without facts."""
    parts = tuple((one.position, one.address) for one in aged)
    stored = [transcript[position].part(address).stored for position, address in parts]
    before = sum(one.compacted_tokens for one in stored if one is not None)
    removed = before - sum(one.tokens for one in aged)
    behind = sum(m.tokens for m in view.messages if aged[0].position <= m.position < transcript.state.shown)
    calls = expected_calls(transcript, policy.cache)
    return PartsCompacted(parts, "aged", arithmetic_of(removed, max(behind - removed, 0), calls, policy.cache))


class _SeenTokens:
    def __init__(self, transcript: Transcript, view: View) -> None:
        shown = transcript.state.shown
        self._view = view
        self._end = view.index_at(shown)
        places = {place for entry in transcript.entries(start=shown) for place in transcript.calls_answered_by(entry)}
        # newer results may stand earlier, at calls shown before without them
        self._late = [
            (index, view.messages[index].tokens)
            for place in sorted(places)
            for index in view.indexes_at(place)
            if place < shown <= view.messages[index].position
        ]

    def before(self, index: int) -> int:
        late = sum(tokens for at, tokens in self._late if at < index)
        return self._view.tokens_before(min(index, self._end)) - late


def _changes(
    transcript: Transcript,
    view: View,
    policy: ContextPolicy,
    is_held: Callable[[PartId], bool],
    counter: TokenCounter,
) -> list[_Change]:
    state = transcript.state
    task = transcript.task(policy.user_sources) or 0
    places = {*state.expanded_at, *state.subjects.superseded}
    for position in {position for position, _ in state.answered_whole}:
        places |= {position, *transcript.calls_answered_by(transcript[position])}
    changes = (
        _change_of(index, view.messages[index], transcript, task, is_held, counter)
        for place in sorted(places)
        for index in view.indexes_at(place)
        if view.messages[index].position < state.shown
    )
    return [change for change in changes if change.removed_tokens]


def _change_of(
    index: int,
    message: ViewMessage,
    transcript: Transcript,
    task: int,
    is_held: Callable[[PartId], bool],
    counter: TokenCounter,
) -> _Change:
    state = transcript.state
    removed, parts, superseded = 0, list[PartId](), list[CompactedTextChosen]()
    for segment in message.segments:
        if segment.kind == "expansion":
            place = segment.expansion_place  # an AutoGen Memory replaces its own expansions
            is_turns = place in state.expanded and state.expanded[place].origin == "turn"
            is_answered = place not in state.unseen and segment.position < state.consumed
            is_over = is_turns and is_answered and segment.position < task
            return _Change(index, message.tokens, places=(place,)) if is_over else _Change(index, 0)
        if (newer := _superseded(segment, transcript, counter)) is not None:
            removed += segment.tokens - transcript[segment.position].part(newer.address).overhead_tokens - newer.tokens
            superseded.append(newer)
            continue
        if segment.part is None or segment.part not in state.answered_whole or is_held(segment.part):
            continue
        if state.subjects.unchanged.get(segment.position, -1) >= state.consumed:
            continue  # a line says that it still holds, and no answer has seen that
        part = transcript[segment.position].part(segment.part[1])
        saved = segment.tokens - part.overhead_tokens - (part.stored.compacted_tokens if part.stored else 0)
        if saved > 0:
            removed += saved
            parts.append(segment.part)
    return _Change(index, removed, tuple(parts), tuple(superseded))


def _superseded(segment: Segment, transcript: Transcript, counter: TokenCounter) -> CompactedTextChosen | None:
    """Return the line that replaces an older state of a subject; None for other parts, or if it saves nothing."""
    subjects = transcript.state.subjects
    if segment.part is None or segment.position not in subjects.superseded:
        return None
    position, address = segment.part
    part = transcript[position].part(address)
    if part.stored is None or not part.stored.refs or not part.is_result:
        return None
    line = subject_line(transcript, subjects.names[position], "newer state at", subjects.superseded[position])
    text = f"{line} {replace(part.stored.refs[0], description='older state').render()}"
    tokens = counter.count(text)
    if tokens + part.overhead_tokens >= segment.tokens:
        return None
    return CompactedTextChosen(position, address, text, tokens, "newer")


def _decisions(changes: list[_Change], arithmetic: Arithmetic, state: TranscriptState) -> list[Decision]:
    parts = tuple(part for change in changes for part in change.parts)
    superseded = tuple(newer for change in changes for newer in change.superseded)
    places = tuple(place for change in changes for place in change.places)
    decisions: list[Decision] = []
    if parts:
        # new in the last view, and no view since its answer
        is_newest = all(position >= state.answered_from for position, _ in parts)
        is_recent = is_newest and state.shown == state.consumed and not places and not superseded
        decisions.append(PartsCompacted(parts, "consumed" if is_recent else "saves", arithmetic))
    if superseded:
        older = tuple((one.position, one.address) for one in superseded)
        decisions += [*superseded, PartsCompacted(older, "superseded", None if parts else arithmetic)]
    if places:
        decisions.append(ExpansionWithdrawn(places, "planned", None if parts or superseded else arithmetic))
    return decisions


class Savings:
    """The planned compactions of one transcript.

    Attributes:
        waiting_tools: Returns the tokens of memory tools that the agent gets with the first reduced result.
    """

    waiting_tools: Callable[[], int] = staticmethod(lambda: 0)

    def __init__(self, policy: ContextPolicy, counter: TokenCounter, renderer: Renderer) -> None:
        self._policy = policy
        self._counter = counter
        self._renderer = renderer
        self._is_opening = False

    def open(self, transcript: Transcript) -> bool:
        """Return whether results may be reduced in the next view: if the tools that read them pay, or are there."""
        if not transcript.state.has_items:  # nothing is stored, so no result can be reduced
            self._is_opening = False
            return True
        tokens = self.waiting_tools()
        self._is_opening = tokens > 0 and pays_for_tools(
            transcript, self._renderer.render(transcript), self._policy, tokens
        )
        return tokens == 0 or self._is_opening

    def plan(self, transcript: Transcript, is_held: Callable[[PartId], bool], *, is_cold: bool = False) -> None:
        """Record what pays; `is_cold`: nothing that a cache holds is rewritten by it."""
        state, policy = transcript.state, self._policy
        if at_once := self._shown_compacted(transcript):  # nothing changes in the view
            transcript.decide(PartsCompacted(at_once, "consumed"))
        if not policy.compaction.enabled:
            return
        if not (state.answered_whole or state.expanded or state.subjects.superseded):
            return
        if self.waiting_tools() and not (self._is_opening or is_cold):  # a fold brings the tools, too
            return
        is_cold, self._is_opening = is_cold or self._is_opening, False
        if is_cache_cold(transcript, policy.cache):  # somebody who comes back asks about the last turn
            is_cold, begin, is_waiting = True, self._last_turn(transcript), is_held
            is_held = lambda part: part[0] >= begin or is_waiting(part)  # noqa: E731
        view = self._renderer.render(transcript)
        record(transcript, saving_changes(transcript, view, policy, is_held, self._counter, is_cold))
        if aged := aged_results(transcript, self._counter):
            ageing = ageing_of(aged, transcript, self._renderer.render(transcript), policy)
            record(transcript, [*aged, ageing])

    def _last_turn(self, transcript: Transcript) -> int:
        """Return the position of the user's message before the newest one."""
        told = [one for one in transcript.state.spoken.values() if one == transcript.end - 1]
        end = told[0] if told else transcript.end
        sources = self._policy.user_sources
        asked = (
            one.position
            for one in reversed(transcript.entries(end=end))
            if one.is_told and source_of(one.message) in sources
        )
        return next(asked, transcript.state.start)

    def _shown_compacted(self, transcript: Transcript) -> tuple[PartId, ...]:
        return tuple(
            (position, address)
            for position, address in sorted(transcript.state.answered_whole)
            for entry in (transcript[position],)
            for stored in (entry.part(address).stored,)
            if stored is not None and stored.refs
            if self._policy.first_view_of(entry.tool_of(address)) == "placeholder"
        )


def record(transcript: Transcript, decisions: Sequence[Decision]) -> None:
    """Record decisions; with a planned change of the view, a user memory that came late moves to the head."""
    late = transcript.state.newest(UserMemoryLoaded)
    for decision in decisions:
        transcript.decide(decision)
    if late is not None and late.place == "tail" and any(one.rewrites_prefix for one in decisions):
        transcript.decide(replace(late, place="head"))
