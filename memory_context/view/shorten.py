"""Shortens parts so that a view fits."""

from collections.abc import Callable
from functools import partial

from memory_context.foundation.compactors.excerpt import excerpt, render_passages
from memory_context.foundation.messages import Address
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import Entry, Part
from memory_context.sessions.transcript.part_decisions import PartsCompacted, PartShortened
from memory_context.sessions.transcript.transcript import Decision

from .view import View

__all__ = ["LEAST_EXCERPT_TOKENS", "ExcerptNeededError", "Shortener", "ShownPart"]

LEAST_EXCERPT_TOKENS = 200
"""Below this an excerpt says less than the placeholder."""

SHORTEST_TOKENS = 60
"""Smaller parts are not shortened: the note would take about as many tokens."""

OFF_LOOP_CHARACTERS = 50_000
"""Excerpts of longer contents are made in a thread: they take up to 0.3 s."""

ShownPart = tuple[Entry, Part, int]
"""An entry, a part of it, and the tokens it takes in the view."""


class ExcerptNeededError(Exception):
    """A long excerpt is needed: call `make` in a thread, then fit again."""

    def __init__(self, make: Callable[[], None]) -> None:
        self.make = make


class Shortener:
    """Returns the decisions that shorten parts; with `can_wait`, a long excerpt raises `ExcerptNeededError`."""

    def __init__(self, policy: ContextPolicy, counter: TokenCounter) -> None:
        self.can_wait = False
        self._policy = policy
        self._counter = counter
        self._made: dict[tuple[int, Address, int], tuple[str, int]] = {}

    def forget(self) -> None:
        self._made.clear()

    def shorten(self, view: View, shown: list[ShownPart], target_tokens: int) -> list[Decision]:
        """Give parts equal shares of the remaining room."""
        large = [item for item in shown if item[2] > SHORTEST_TOKENS]
        budget = target_tokens - (view.tokens - sum(tokens for _, _, tokens in large))
        share = _equal_share([tokens for _, _, tokens in large], budget)
        compacted: list[tuple[int, Address]] = []
        shortened: list[Decision] = []
        for entry, part, tokens in large:
            if tokens <= share:
                continue
            decision = self.excerpted(entry, part, share)
            if decision is None and part.stored is not None and part.stored.compacted_tokens < tokens:
                compacted.append((entry.position, part.address))
            elif decision is not None and decision.tokens < tokens:
                shortened.append(decision)
        return [*([PartsCompacted(tuple(compacted), "budget")] if compacted else []), *shortened]

    def excerpted(self, entry: Entry, part: Part, limit_tokens: int) -> PartShortened | None:
        """Return the decision to show an excerpt; None if the placeholder says more."""
        reread = f"read_history(first_message={entry.position + 1})"
        content = entry.text(part.address)
        has_room = limit_tokens >= LEAST_EXCERPT_TOKENS and content is not None and part.address.kind != "arguments"
        if part.stored and not has_room:
            return None
        if part.address.kind == "arguments":
            text = '{"shortened": "these arguments were left out to fit the budget; read_history shows them"}'
        elif has_room and content is not None:
            whole = part.stored.refs[0].render() if part.stored and part.stored.refs else reread
            headline = f"Shortened to fit the budget; whole: {whole}"
            make = partial(self._excerpt, content, headline, limit_tokens, part.tokens)
            text, tokens = self._made_ahead((entry.position, part.address, limit_tokens), len(content), make)
            return PartShortened(entry.position, part.address, text, tokens)
        else:
            text = f"[{part.tokens} tokens left out to fit the budget; whole: {reread}]"
        return PartShortened(entry.position, part.address, text, self._counter.count(text))

    def _excerpt(self, content: str, headline: str, limit_tokens: int, token_count: int) -> tuple[str, int]:
        passages = excerpt(content, limit_tokens - self._counter.count(headline), self._counter, token_count)
        text = f"{headline}\n{render_passages(content, passages)}"
        return text, self._counter.count(text)

    def _made_ahead(
        self, key: tuple[int, Address, int], characters: int, make: Callable[[], tuple[str, int]]
    ) -> tuple[str, int]:
        if key in self._made:
            return self._made[key]
        if not self.can_wait or characters <= OFF_LOOP_CHARACTERS:
            return make()

        def make_ahead() -> None:
            self._made[key] = make()

        raise ExcerptNeededError(make_ahead)

    def without_blocks(self, view: View, shown: list[ShownPart]) -> list[Decision]:
        """Replace texts by a note, the last ones first."""
        excess = view.tokens - (self._policy.view_limit_tokens or 0)
        blocks = [item for item in reversed(shown) if item[2] > 0]
        decisions: list[Decision] = []
        for number, (entry, part, tokens) in enumerate(blocks, 1):
            text = (
                f"[{number} texts left out to fit the budget; whole: read_history(first_message={entry.position + 1})]"
            )
            said = self._counter.count(text)
            if excess + said - tokens <= 0 or number == len(blocks):
                return [*decisions, PartShortened(entry.position, part.address, text, said)]
            decisions.append(PartShortened(entry.position, part.address, "", 0))
            excess -= tokens
        return decisions

    def without_images(self, view: View, shown: list[ShownPart]) -> list[Decision]:
        """Replace images by their references, or by a note if they are not stored, the last ones first."""
        excess = view.tokens - (self._policy.view_limit_tokens or 0)
        text = "[image left out to fit the budget]"
        tokens_of_text = self._counter.count(text)
        shortened: list[Decision] = []
        compacted: list[tuple[int, Address]] = []
        for entry, part, tokens in reversed(shown):
            said = tokens_of_text if part.stored is None else part.stored.compacted_tokens
            if excess <= 0:
                break
            if tokens <= said:
                continue
            if part.stored is None:
                shortened.append(PartShortened(entry.position, part.address, text, said))
            else:
                compacted.append((entry.position, part.address))
            excess -= tokens - said
        return [*([PartsCompacted(tuple(compacted), "budget")] if compacted else []), *shortened]


def _equal_share(sizes: list[int], budget: int) -> int:
    """Return the limit per part: small ones stay whole, large ones get equal shares."""
    remaining, count = max(budget, 0), len(sizes)
    for size in sorted(sizes):
        if size * count > remaining:
            return remaining // count
        remaining -= size
        count -= 1
    return max(sizes, default=0)
