"""The summary of a content: what says most about it, in its own words, within a limit.

What a model once said of it is shown where there is that. Else it is extractive, deterministic and without a model:
structured data is told by its shape (`outlining`); of anything else those units are shown whose terms are central to
the content, that play a role in it (titles, headings, definitions, errors, totals), and that do not repeat what is
shown already. Each has its line number, so that a reader can open what is around it.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..compaction import cut_at_sentence
from ..text import query_terms
from ..tokens import TokenCounter, cut_to_tokens
from .outlining import Outline, OutlineLine, outline
from .slicing import Cut, Slicer, call_text
from .units import Role, Unit, units_of

__all__ = ["SUMMARIZED_CHARACTERS", "summarize"]

SUMMARIZED_CHARACTERS = 2_000_000
"""Of a longer content, only this much from its beginning is looked at, and the footer says so."""

_RANKED_UNITS = 40_000
"""Of more units, those with a role and evenly spread others are ranked."""

# What a role is worth beside the centrality of the words, which is at most 1.
_WORTH: dict[Role, float] = {
    "title": 3.0,
    "error": 2.5,
    "total": 2.2,
    "heading": 2.0,
    "definition": 1.8,
    "section": 1.5,
    "member": 1.0,
    "doc": 0.6,
    "end": 0.5,
    "warning": 0.5,
    "lead": 0.25,
}
_FADING = 0.93  # of a role's worth, with each unit that plays it: many headings leave room for a sentence
_REPEATED = 0.4  # of a term's worth, with each unit that has it
_LEAST_NEWS = 0.3  # of a role's worth, to a unit whose terms have all been said
_RECKONED = 64  # units whose gain is reckoned again, at most, before the best of them is taken
_MISSES = 20  # units that do not fit any more, one after the other, until the search for one that does ends
_AROUND_LINES, _AROUND_CHARACTERS = 10, 1_000  # what the footer offers to open before and after
_BY_MODEL = "A model wrote this summary; the whole content is one retrieve_memory call away."
_LEAST_ROOM_TOKENS = 16  # beside the footer, as any answer has


def summarize(slicer: Slicer, limit_tokens: int, model_summary: str | None = None) -> Cut:
    """Return what says most about a content; all of it if it is within the limit.

    Args:
        slicer: The content, and the limit of the answer with its footer.
        limit_tokens: The most the summary takes; the footer comes on top of it.
        model_summary: What a model said of the content: shown, as such, instead of the content's own words.

    Raises:
        ValueError: The limit of the answer has no room for the footer.
    """
    content, counter = slicer.content, slicer.counter
    limit = limit_tokens if slicer.limit is None else min(limit_tokens, slicer.limit)
    if not counter.is_over(content, limit):
        return Cut(content, True, "all of")
    if model_summary:
        return _by_model(slicer, model_summary, limit)
    text = content
    if len(text) > SUMMARIZED_CHARACTERS:
        text = text[:SUMMARIZED_CHARACTERS]
        text = text[: text.rfind("\n", len(text) // 2) + 1] or text
    shape = outline(text)
    shown = _outlined(slicer, shape, len(text)) if shape else _chosen(slicer, text)
    return Cut(_fitted(slicer, shown, limit), False, "summary of")


def _by_model(slicer: Slicer, summary: str, limit: int) -> Cut:
    """Return a model's summary, cut at a sentence if it is too long, with where it is from."""
    counter = slicer.counter
    call = call_text(slicer.key, "full", {})
    footer = f'[summary of {slicer.described()}. Next: {call}, or transform="filtered" with a pattern]'
    if slicer.limit is not None:
        limit = min(limit, slicer.limit - counter.count("\n" + footer))
    room = max(limit - counter.count(_BY_MODEL + "\n") - 1, _LEAST_ROOM_TOKENS)
    text = f"{_BY_MODEL}\n{cut_at_sentence(summary, room, counter)}"
    return Cut(slicer.within_limit(text, footer), False, "summary of")


@dataclass(frozen=True)
class _Shown:
    """What may be shown: statements, the most important first, and the footer for those that are."""

    lines: Iterator[OutlineLine]
    footer: Callable[[list[OutlineLine]], str]


def _fitted(slicer: Slicer, shown: _Shown, limit: int) -> str:
    """Return as many statements as the limit allows, in their order, and the footer."""
    counter = slicer.counter
    if slicer.limit is not None:
        limit = min(limit, max(slicer.limit - counter.count("\n" + shown.footer([])), _LEAST_ROOM_TOKENS))
    first = next(shown.lines, None)
    if first is None:
        return slicer.within_limit("", shown.footer([]))
    chosen = _taken(chain((first,), shown.lines), limit, counter)
    while chosen:
        text = "\n".join(line.text for line in sorted(chosen, key=lambda line: line.place))
        whole = f"{text}\n{shown.footer(chosen)}"
        is_over_answer = slicer.limit is not None and counter.is_over(whole, slicer.limit)
        if not is_over_answer and not counter.is_over(text, limit):
            return whole
        chosen.pop()
    return slicer.within_limit(cut_to_tokens(first.text, limit, counter), shown.footer([first]))


def _taken(lines: Iterator[OutlineLine], limit: int, counter: TokenCounter) -> list[OutlineLine]:
    taken: list[OutlineLine] = []
    misses = 0
    for line in lines:
        cost = counter.count(line.text + "\n")
        if cost <= limit:
            limit -= cost
            misses = 0
            taken.append(line)
        else:
            misses += 1
        if misses == _MISSES or limit <= 0:
            break
    return taken


def _outlined(slicer: Slicer, shape: Outline, seen_characters: int) -> _Shown:
    def footer(lines: list[OutlineLine]) -> str:
        if shape.json_path is not None:
            call = call_text(slicer.key, "filtered", {"json_path": shape.json_path})
        else:
            call = call_text(slicer.key, "first_n", {"n": _AROUND_LINES})
        return (
            f"[summary: what is in {shape.what} of {slicer.described()}{_unseen(slicer, seen_characters)}. "
            f'Next: {call}, or transform="filtered" with a pattern]'
        )

    return _Shown(shape.lines, footer)


def _chosen(slicer: Slicer, text: str) -> _Shown:
    units = units_of(text)
    has_parts = any(unit.is_part or unit.is_sentence for unit in units)
    by_place = {unit.start: unit for unit in units}

    def footer(lines: list[OutlineLine]) -> str:
        noun = "passages from" if has_parts else "of"
        shown = f"summary: {len(lines)} {noun} {slicer.described()}{_unseen(slicer, len(text))}"
        if not lines:
            shown = f"summary: no words in {slicer.described()}{_unseen(slicer, len(text))}"
        place, call = _around(slicer, [by_place[line.place[0]] for line in lines])
        return f'[{shown}. {place}: {call}; to look for something: transform="filtered" with a pattern]'

    lines = (OutlineLine((unit.start,), _rendered(text, unit)) for unit in _ranked(text, _thinned(units)))
    return _Shown(lines, footer)


def _unseen(slicer: Slicer, seen_characters: int) -> str:
    size = len(slicer.content)
    return f"; looked at the first {seen_characters:,} of {size:,} characters" if seen_characters < size else ""


def _around(slicer: Slicer, units: list[Unit]) -> tuple[str, str]:
    """Return a name and a call for what is around a unit worth opening: an error, else the best after the title."""
    unit = next((unit for unit in units if unit.role == "error"), (units[1:2] or units or [Unit(0, 1, 1, 1)])[0])
    if unit.is_part:
        first, last = (
            max(unit.start + 1 - _AROUND_CHARACTERS, 1),
            min(unit.end + _AROUND_CHARACTERS, len(slicer.content)),
        )
        return f"Around char {unit.start + 1}", call_text(
            slicer.key, "excerpt", {"start_char": first, "end_char": last}
        )
    first = max(unit.first_line - _AROUND_LINES, 1)
    last = min(unit.last_line + _AROUND_LINES, slicer.line_count)
    return f"Around line {unit.first_line}", call_text(slicer.key, "excerpt", {"start_line": first, "end_line": last})


def _rendered(text: str, unit: Unit) -> str:
    said = text[unit.start : unit.end].rstrip()
    if unit.is_part:
        return f"line {unit.first_line}, chars {unit.start + 1}-{unit.end}: {said}"
    lines = f"{unit.first_line}" if unit.first_line == unit.last_line else f"{unit.first_line}-{unit.last_line}"
    if unit.is_sentence:
        said = " ".join(line.strip() for line in said.split("\n"))
    alike = f" (and {unit.alike - 1:,} more like it)" if unit.alike > 1 else ""
    return f"{lines}: {said}{alike}"


def _thinned(units: list[Unit]) -> list[Unit]:
    """Return no more units than are ranked: as many of those with a role as possible, and of the others evenly."""
    if len(units) <= _RANKED_UNITS:
        return units
    telling = [unit for unit in units if unit.role is not None]
    others = [unit for unit in units if unit.role is None]
    kept: list[Unit] = []
    for group in (telling, others):
        room = _RANKED_UNITS - len(kept)
        if group and room > 0:
            kept += group[:: math.ceil(len(group) / room)]
    return sorted(kept, key=lambda unit: unit.start)


class _Ranking:
    """The units of one content, and what those shown so far have said."""

    def __init__(self, text: str, units: Sequence[Unit]) -> None:
        self._units = units
        # the terms of a query are those that tell something: distinct, without function words
        self._terms = [query_terms(text[unit.start : unit.end]) for unit in units]
        frequencies = Counter(chain.from_iterable(self._terms))
        self._rarity = {term: math.log(1 + len(units) / count) for term, count in frequencies.items()}
        # the centroid of the units as vectors of tf-idf; a term of one unit only is central to nothing
        self._value = {
            term: count * self._rarity[term] ** 2 if count > 1 else 0.0 for term, count in frequencies.items()
        }
        squares = [sum(self._rarity[term] ** 2 for term in terms) for terms in self._terms]
        usual = sum(squares) / max(len(squares), 1) or 1.0  # so that the shortest are not the most central
        self._norms = [math.sqrt(square + usual) for square in squares]
        self._said: set[str] = set()
        self._played: Counter[Role] = Counter()
        self._scale = 1.0
        self._scale = max((self._centrality(index) for index in range(len(units))), default=0.0) or 1.0

    def gain(self, index: int) -> float:
        """Return what showing a unit would add; it never grows as others are shown."""
        role = self._units[index].role
        gain = self._centrality(index)
        if role is None:
            return gain
        rarity = self._rarity
        whole = sum(rarity[term] for term in self._terms[index])
        news = sum(rarity[term] for term in self._terms[index] if term not in self._said)
        share = _LEAST_NEWS + (1 - _LEAST_NEWS) * (news / whole if whole else 1.0)
        return gain + _WORTH[role] * _FADING ** self._played[role] * share

    def show(self, index: int) -> None:
        """Take a unit as shown."""
        for term in self._terms[index]:
            self._said.add(term)
            self._value[term] *= _REPEATED
        if role := self._units[index].role:
            self._played[role] += 1

    def _centrality(self, index: int) -> float:
        return sum(self._value[term] for term in self._terms[index]) / self._norms[index] / self._scale


def _ranked(text: str, units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units, each time the one that adds most to those before it."""
    ranking = _Ranking(text, units)
    waiting = [(-ranking.gain(index), index) for index in range(len(units))]
    heapq.heapify(waiting)
    while waiting:
        # gains never grow, so one that is still the best after being reckoned again is the best
        reckoned: list[tuple[float, int]] = []
        while waiting and len(reckoned) < _RECKONED and not (reckoned and min(reckoned) <= waiting[0]):
            index = heapq.heappop(waiting)[1]
            reckoned.append((-ranking.gain(index), index))
        best = min(reckoned)
        for other in reckoned:
            if other is not best:
                heapq.heappush(waiting, other)
        gain, index = -best[0], best[1]
        if gain > 0 or not units[index].is_sentence:  # lines at least show what kind of content it is
            ranking.show(index)
            yield units[index]
