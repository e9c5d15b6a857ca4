"""Fits a view into its budget, by steps in order of their cost to the agent; plans the next view of a session."""

import asyncio
import hashlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from memory_context.compaction.observation.coordinator import BufferingCoordinator
from memory_context.foundation.messages import PartKind
from memory_context.foundation.policy import CachePolicy, ContextPolicy
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.part_decisions import PartsCompacted
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.values import Arithmetic
from memory_context.sessions.transcript.view_decisions import ExpansionWithdrawn, HistoryFolded

from .bill import Bill
from .economics import Savings, arithmetic_of, expected_calls, is_cache_cold, record
from .history import FoldedLines, fold_key
from .masking import Masker
from .render import Renderer, current_task, text_in_view
from .shorten import LEAST_EXCERPT_TOKENS, ExcerptNeededError, Shortener, ShownPart
from .view import View

__all__ = ["Budget", "ViewPlanner", "session_tag"]


FOLD_TEXT_LIMIT_TOKENS = 500
AUTO_TARGET_TOKENS, AUTO_TARGET_TOKENS_READING = 13_000, 8_000
"""Of an agent with memory tools; the second where it can open references from its first call on, since it reads much.

13,000 cost .016 less than 16,000, with the same strings in view; 12,000 cost as much, with three strings fewer. For an
agent that reads much 8,000 cost .04 to .06 less, look-ups counted, with 28 instead of 31 of 47 later strings in view.
"""
_FOLD_TO_RATIO = 0.6
"""View after a fold for the budget, as a share; low, so that folds rarely break the cached prefix.

At 16,000 tokens 0.4 would save .021 of the cost of code runs, and take more from the agent; 0.8 costs .028.
"""
TARGET_SHARE = 0.4
"""Share of the target that a view takes after a fold that pays; low, so that such folds are rare."""
MOST_SHARE_AT_A_FOLD = 1.125
"""The most that a session may have cost by a fold that pays, of keeping everything: it may end right then.

On 145 runs 1.05 cost .01 of the whole cost more and 1.1 .005, without it one run ended at 1.06 instead of 1.00.
"""
_FIT_ATTEMPTS = 20  # one excerpt each; the last attempt makes the rest
_Step = Callable[[Transcript, View], Sequence[Decision]]


def session_tag(session_id: str) -> str:
    """Return a short hash that distinguishes the fold keys of sessions."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:6]


class Budget:
    """Fits the views of one session into the budget of its policy.

    Args:
        masker: Records masks of credentials before each view.

    Attributes:
        observations: Those of the session, if any.
        bill: Of the calls so far; without one, no fold waits for what they cost.
        agent_has_tools: The agent can read what is folded.
        savings: Planned compactions.
    """

    observations: BufferingCoordinator | None = None
    bill: Bill | None = None

    def __init__(
        self,
        policy: ContextPolicy,
        counter: TokenCounter,
        renderer: Renderer,
        tag: str,
        masker: Masker | None = None,
    ) -> None:
        self._policy = policy
        self._masker = masker
        self._counter = counter
        self._renderer = renderer
        self._shortener = Shortener(policy, counter)
        self._lines: FoldedLines | None = None
        self.savings = Savings(policy, counter, renderer)
        self.agent_has_tools = False
        self.tag = tag

    async def fit_off_loop(
        self, transcript: Transcript, is_held: Callable[[PartId], bool], measure: Callable[[], Awaitable[None]]
    ) -> View:
        """Do as `fit`, with long excerpts made in a thread.

        There is no await between the fit that succeeds and the return. `measure` measures entries added meanwhile.
        """
        for attempt in range(_FIT_ATTEMPTS):
            self._shortener.can_wait = attempt < _FIT_ATTEMPTS - 1
            try:
                view = self.fit(transcript, is_held)
            except ExcerptNeededError as needed:
                await asyncio.to_thread(needed.make)
                await measure()
                continue
            finally:
                self._shortener.can_wait = False
            self._shortener.forget()
            return view
        raise AssertionError("unreachable")

    def fit(self, transcript: Transcript, is_held: Callable[[PartId], bool] = lambda part: False) -> View:
        """Return a view that fits, after recording the decisions for it.

        `is_held` protects a part from compaction unless the budget requires it.
        """
        self.plan(transcript, is_held)
        view = self._renderer.render(transcript)
        limit = self._policy.view_limit_tokens
        if limit is None or view.tokens <= limit:
            return self._folded_if_it_pays(transcript, view)
        rare_enough = self._fold_target(view)
        steps: list[tuple[_Step, int]] = [
            (self._withdraw_ended, rare_enough),
            (self._compact_consumed, rare_enough),
            *self._observation_steps(limit),
            (self._fold_consumed, limit),
            (self._withdraw_all, limit),
            (self._shorten_arguments_that_leave_no_room, limit),
            (self._shorten_fresh("result", target=limit), limit),
            (self._shorten_fresh("text", "thought", target=rare_enough), limit),
            (self._leave_out_images, limit),
            (self._shorten_fresh("arguments", target=limit), limit),
            (self._fold_fresh, limit),
            (self._trim_fold, limit),
            (self._leave_out_images_of_the_task, limit),
            (self._shorten_kept, limit),
            (self._fold_all_but_the_task, limit),
            (self._leave_out_texts_of_the_task, limit),
            (self._fold_all, limit),
        ]
        for take_decisions, enough in steps:
            decided = len(transcript.log)
            record(transcript, take_decisions(transcript, view))
            if len(transcript.log) > decided:
                view = self._renderer.render(transcript)
            if view.tokens <= enough:
                break
        return view

    def _folded_if_it_pays(self, transcript: Transcript, view: View) -> View:
        """Fold the oldest steps of a view over its target if that saves more than it costs."""
        target = self._policy.view_target_tokens
        if target == "auto":
            is_observed = self.observations is not None and self.observations.is_on
            auto = AUTO_TARGET_TOKENS_READING if transcript.state.reads_much else AUTO_TARGET_TOKENS
            target = auto if self.agent_has_tools and not is_observed else None
        if target is None or view.tokens <= target:
            return view
        left = int(max(target - view.tokens_beside, 0) * TARGET_SHARE)
        if not self._pays(transcript, view, left):
            return view
        fold = self._fold(transcript, view, transcript.state.foldable_end, view.tokens_beside + left)
        if not any(one.arithmetic and one.arithmetic.net > 0 for one in fold):
            return view
        record(transcript, fold)
        self.savings.plan(transcript, lambda part: False, is_cold=True)  # all behind the fold is read anew
        return self._renderer.render(transcript)

    def _pays(self, transcript: Transcript, view: View, left: int) -> bool:
        """Return whether a fold that leaves so many tokens of the history pays, and leaves the session affordable."""
        removed = view.tokens - view.tokens_beside - left
        calls = expected_calls(transcript, self._policy.cache)
        if arithmetic_of(removed, left, calls, self._policy.cache).net <= 0:
            return False
        is_cold = is_cache_cold(transcript, self._policy.cache)
        return self.bill is None or self.bill.share_with(view.tokens_beside + left, is_cold) <= MOST_SHARE_AT_A_FOLD

    def next_view(self, transcript: Transcript) -> View:
        """Render the view as it is now, without decisions for it."""
        return self._renderer.render(transcript)

    def refold(self, transcript: Transcript) -> None:
        """Make a fold anew for what the observation log does not stand for."""
        if (fold := transcript.state.fold) is not None:
            record(transcript, [self._folded(transcript, fold.upto, fold.kept)])

    def plan(self, transcript: Transcript, is_held: Callable[[PartId], bool] = lambda part: False) -> None:
        """Record the decisions that save cost, then masks; also called before expansion decisions."""
        self.savings.plan(transcript, is_held)
        if self._masker is not None:
            self._masker.decide()

    def _observation_steps(self, limit: int) -> list[tuple[_Step, int]]:
        """Before a fold, activate finished observations."""
        finished = self.observations
        if finished is None or not finished.log.has_finished:
            return []

        def activate(transcript: Transcript, view: View) -> list[Decision]:
            finished.activate_for_budget()
            return []

        return [(activate, int(limit * self._policy.observation.activation_ratio))]

    # --- steps: each returns its decisions

    def _withdraw_ended(self, transcript: Transcript, view: View) -> list[Decision]:
        task = current_task(transcript, self._policy)
        state = transcript.state
        ended = [place for place in state.expanded if place not in state.unseen and place[0] < (task or 0)]
        return [ExpansionWithdrawn(tuple(ended), "planned")] if ended else []

    def _withdraw_all(self, transcript: Transcript, view: View) -> list[Decision]:
        places = tuple(transcript.state.expanded)
        return [ExpansionWithdrawn(places, "budget")] if places else []

    def _compact_consumed(self, transcript: Transcript, view: View) -> list[Decision]:
        """Compact stored answered parts; not arguments, since models copy what they see there."""
        task, compared = current_task(transcript, self._policy), {*transcript.state.compared.values()}
        parts = [
            (entry.position, part.address)
            for entry in transcript.shown(end=transcript.state.consumed)
            if entry.position != task
            for part in entry.measured
            if part.stored
            and part.address.kind != "arguments"
            and (part.address.kind != "image" or part.stored.compacted_tokens < part.tokens)
            and (entry.position, part.address) not in transcript.state.compacted
            and (entry.position, part.address) not in compared
        ]
        decisions: list[Decision] = [PartsCompacted(tuple(parts), "budget")] if parts else []
        if task is not None and task < transcript.state.consumed:
            # only so much of a task is always whole; the rest is shortened first
            limit = self._policy.first_view_limit_tokens
            entry = transcript[task]
            for part in entry.measured:
                is_too_long = part.address.kind == "text" and part.tokens > limit
                if is_too_long and (task, part.address) not in transcript.state.shortened:
                    shortened = self._shortener.excerpted(entry, part, limit)
                    decisions += [shortened] if shortened else []
        return decisions

    def _fold_consumed(self, transcript: Transcript, view: View) -> Sequence[Decision]:
        return self._fold(transcript, view, transcript.state.foldable_end, self._fold_target(view))

    def _fold_fresh(self, transcript: Transcript, view: View) -> Sequence[Decision]:
        return self._fold(transcript, view, transcript.end, self._limit)

    def _trim_fold(self, transcript: Transcript, view: View) -> list[Decision]:
        fold = transcript.state.fold
        if fold is None:
            return []
        excess = view.tokens - self._limit
        trimmed = self._folded(transcript, fold.upto, fold.kept, text_limit=fold.tokens - excess)
        return [trimmed] if trimmed.tokens < fold.tokens else []

    def _fold_all_but_the_task(self, transcript: Transcript, view: View) -> list[Decision]:
        task = current_task(transcript, self._policy)
        if task is None or all(one == task for one in range(transcript.state.history_start, transcript.end)):
            return []
        return [self._folded(transcript, transcript.end, (task,))]

    def _leave_out_texts_of_the_task(self, transcript: Transcript, view: View) -> list[Decision]:
        task = current_task(transcript, self._policy)
        positions = [] if task is None else [task]
        return self._shortener.without_blocks(view, self._shown(transcript, positions, "text"))

    def _fold_all(self, transcript: Transcript, view: View) -> list[Decision]:
        is_any = transcript.end > transcript.state.history_start
        return [self._folded(transcript, transcript.end, ())] if is_any else []

    def _fold(self, transcript: Transcript, view: View, end: int, target: int) -> list[HistoryFolded]:
        """Fold the oldest whole steps before `end` until the target is reached."""
        state = transcript.state
        kept = self._kept(transcript)
        tokens: dict[int, int] = {}
        for message in view.messages[view.history.start : view.history.stop]:
            tokens[message.position] = tokens.get(message.position, 0) + message.tokens
        text_limit = self._fold_text_limit()
        size = view.tokens + text_limit
        if state.fold is not None:
            size -= state.fold.tokens
        upto = state.fold.upto if state.fold else state.history_start
        for step_end in transcript.pairing.step_ends(upto, end):
            if size <= target:
                break
            size -= sum(tokens.get(position, 0) for position in range(upto, step_end) if position not in kept)
            upto = step_end
        earlier, begin = (state.fold.kept, state.fold.upto) if state.fold else ((), state.history_start)
        if all(position in kept for position in (*earlier, *range(begin, upto))):
            return []
        if all(position in kept for position in range(state.history_start, upto)):  # the rest is in the log
            return []
        stays = tuple(p for p in kept if p < upto)
        fold = self._folded(transcript, upto, stays)
        behind = sum(size for position, size in tokens.items() if position < upto and position not in kept)
        if fold.tokens >= behind:  # a fold must be smaller than what it replaces
            fold = self._folded(transcript, upto, stays, text_limit=behind // 2)
        if fold.tokens >= behind:
            return []
        removed = behind - fold.tokens  # includes the previous fold
        calls = expected_calls(transcript, self._policy.cache)
        rewritten = view.tokens - view.tokens_beside - removed
        return [replace(fold, arithmetic=arithmetic_of(removed, rewritten, calls, self._policy.cache))]

    def _folded(
        self, transcript: Transcript, upto: int, kept: tuple[int, ...], text_limit: int | None = None
    ) -> HistoryFolded:
        start = transcript.state.history_start
        first = next(p for p in range(start, upto) if p not in kept)
        last = next(p for p in range(upto - 1, start - 1, -1) if p not in kept)
        among = [p for p in kept if start <= p < upto]
        asking = transcript.pairing.asking
        steps = (
            bisect_left(asking, upto) - bisect_left(asking, start) - sum(p in transcript.pairing.answers for p in among)
        )
        began, ended = (transcript[p].added_at.strftime("%Y-%m-%d %H:%M") for p in (first, last))
        ref = MemoryRef(
            fold_key(self.tag, first, last),
            f"messages {first + 1}-{last + 1} of this session, {steps} tool steps, {began} to {ended} UTC",
            transcript.full_tokens(start, upto) - sum(transcript[p].full_tokens for p in among),
        )
        if self._lines is None or self._lines.transcript is not transcript:
            self._lines = FoldedLines(transcript, self._policy)
        text_limit = self._fold_text_limit() if text_limit is None else text_limit
        text = self._lines.text(ref, upto, kept, text_limit, self._counter)
        return HistoryFolded(upto, kept, ref, text, self._counter.count(text))

    def _shorten_arguments_that_leave_no_room(self, transcript: Transcript, view: View) -> list[Decision]:
        """Shorten the newest arguments if shorter results and texts would not suffice."""
        readable = self._fresh(transcript, "result", "text", "thought")
        gain = sum(tokens - LEAST_EXCERPT_TOKENS for _, _, tokens in readable if tokens > LEAST_EXCERPT_TOKENS)
        if view.tokens - gain <= self._limit:
            return []
        return self._shortener.shorten(view, self._fresh(transcript, "arguments"), self._limit)

    def _shorten_fresh(self, *kinds: PartKind, target: int) -> _Step:

        def step(transcript: Transcript, view: View) -> list[Decision]:
            return self._shortener.shorten(view, self._fresh(transcript, *kinds), target)

        return step

    def _shorten_kept(self, transcript: Transcript, view: View) -> list[Decision]:
        texts = self._shown(transcript, self._kept(transcript), "text")
        return self._shortener.shorten(view, texts, self._limit)

    def _leave_out_images(self, transcript: Transcript, view: View) -> list[Decision]:
        return self._shortener.without_images(view, self._fresh(transcript, "image"))

    def _leave_out_images_of_the_task(self, transcript: Transcript, view: View) -> list[Decision]:
        return self._shortener.without_images(view, self._shown(transcript, self._kept(transcript), "image"))

    # --- inputs of the steps

    def _fresh(self, transcript: Transcript, *kinds: PartKind) -> list[ShownPart]:
        """Return the unanswered parts of these kinds, without instructions and task."""
        kept, state = self._kept(transcript), transcript.state
        positions = range(max(state.consumed, state.start), transcript.end)
        return self._shown(transcript, [position for position in positions if position not in kept], *kinds)

    def _shown(self, transcript: Transcript, positions: Iterable[int], *kinds: PartKind) -> list[ShownPart]:
        return [
            (entry, part, text_in_view(transcript, self._policy, entry, part)[2])
            for entry in (transcript[position] for position in positions if not transcript.state.is_hidden(position))
            for part in entry.measured
            if part.address.kind in kinds
        ]

    # --- limits of folds

    def _kept(self, transcript: Transcript) -> list[int]:
        return transcript.kept(self._policy.user_sources)

    def _fold_target(self, view: View) -> int:
        """Return the size of a view after a fold."""
        beside = view.tokens_beside
        return beside + int((self._limit - beside) * _FOLD_TO_RATIO)

    @property
    def _limit(self) -> int:
        return self._policy.view_limit_tokens or 0

    def _fold_text_limit(self) -> int:
        return min(FOLD_TEXT_LIMIT_TOKENS, self._limit // 4)


class ViewPlanner:
    """The views of one transcript, as its budget plans them."""

    def __init__(
        self, transcript: Transcript, budget: Budget, prices: CachePolicy, is_held: Callable[[PartId], bool]
    ) -> None:
        self._transcript = transcript
        self._budget = budget
        self._prices = prices
        self._is_held = is_held

    def next(self) -> View:
        return self._budget.next_view(self._transcript)

    def plan(self) -> None:
        self._budget.plan(self._transcript, self._is_held)

    def record(self, decision: Decision) -> None:
        record(self._transcript, [decision])

    def refold(self) -> None:
        self._budget.refold(self._transcript)

    def arithmetic(self, removed_tokens: int, rewritten_tokens: int) -> Arithmetic:
        """Return what a planned change costs and saves."""
        calls = expected_calls(self._transcript, self._prices)
        return arithmetic_of(removed_tokens, rewritten_tokens, calls, self._prices)
