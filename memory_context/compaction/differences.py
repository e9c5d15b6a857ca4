"""Results that repeat an earlier one: their first view is the difference from it, while it stands in the view.

Pages of a browser, files read again and listings repeat most of what a call before returned. While results do so, the
newest one that is shown as it is stays uncompacted until the next results come, which may repeat it, too.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate

from memory_context.foundation.compactors.excerpt import Passage
from memory_context.foundation.credentials.masks import masked, masked_in_place
from memory_context.foundation.messages import calls_of
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import elided, one_line
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["MOST_SHARE", "Difference", "DifferenceFinder"]

MOST_SHARE = 0.5
"""The most that a difference takes of its result."""

_LEAST_SHARE = 0.5
"""Share of a result, in lines that an earlier one has, from which it repeats that one."""
_LEAST_RATE = 0.25
"""Share of recent results that repeated an earlier one, from which the next one is expected to: a result that stays
in vain costs a tenth of its tokens in one call."""
_RECENT = 8
"""Results that new ones are compared with, and counted for that share."""
_MOST_LINES, _MOST_CHARACTERS = 5000, 200_000
_LEAST_GAP_CHARACTERS = 120
_READ_OF_CALL, _CALL_LIMIT, _GONE_LIMIT, _GONE_LINES = 1000, 80, 80, 5
_LINE_END = regex(r"(?<=\n)|(?<=\\n)")
"""Also an escaped line break: many tools wrap their text in JSON."""


@dataclass(frozen=True)
class _Result:
    part: PartId
    name: str
    lines: Sequence[str] = field(repr=False)
    known: frozenset[str] = field(repr=False)

    def shares_in(self, others: Sequence["_Result"]) -> list[float]:
        """Return the share of its characters that stand in lines of each other one."""
        whole = sum(map(len, self.lines)) or 1
        return [sum(len(line) for line in self.lines if line in other.known) / whole for other in others]


@dataclass(frozen=True)
class Difference:
    """What a result has that an earlier one, which is in the view, lacks.

    Attributes:
        base: The earlier one; `key` is that of its item, `name` the call and how long ago that was.
        spent_tokens: Tokens of the differences from it so far.
        is_changed: For each line of the result, True if the earlier one lacks it at this place.
        is_unseen: For each line, True if it changed or the earlier one's first view does not show it.
        gone: Lines of the earlier one that were removed without a replacement.
    """

    base: PartId
    key: str
    name: str
    spent_tokens: int
    is_changed: Sequence[bool] = field(repr=False)
    is_unseen: Sequence[bool] = field(repr=False)
    gone: Sequence[str] = field(repr=False)

    def passages(self, content: str, within: Sequence[Passage] | None) -> list[Passage]:
        """Return the passages to show: what changed, and what is unseen in these passages; None: anywhere."""
        lengths = [len(line) for line in _LINE_END.split(content)]
        passages: list[Passage] = []
        for number, (end, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
            start = end - length
            is_in = within is None or any(one.start < end and start < one.end for one in within)
            if self.is_changed[number] or (is_in and self.is_unseen[number]):
                if passages and start - passages[-1].end < _LEAST_GAP_CHARACTERS:
                    start = passages.pop().start
                passages.append(Passage(start, end))
        return passages

    def text(self, passages: str) -> str:
        """Return the rendered passages with a line above and one below."""
        of = f"{self.name} ({self.key})"
        gone = [f'"{one_line(masked_in_place(line), _GONE_LIMIT)}"' for line in self.gone[:_GONE_LINES]]
        more = f" and {len(self.gone) - len(gone)} more lines" if len(self.gone) > len(gone) else ""
        # names the key in this line, too: it quotes that item, and is forgotten with it
        below = f"\nGone since {self.key}: {', '.join(gone)}{more}" if gone else ""
        if not any(self.is_unseen):
            return f"No line is new beside {of}.{below}"
        return f"Without the lines that stand in {of}:\n{passages}{below}"


class DifferenceFinder:
    """The recent results of one transcript, and the one that stays for newer ones."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript = transcript
        self._is_on = policy.compaction.enabled
        self._recent: deque[_Result] = deque(maxlen=_RECENT)
        self._repeated: deque[bool] = deque(maxlen=_RECENT)
        self._differing: set[PartId] = set()
        self._base: _Result | None = None
        self._used_at = 0
        self._spent = 0

    def is_held(self, part: PartId) -> bool:
        """Return whether a fresh result is compared with this one, or the results that come next may be.

        Once others have come, it may go: nothing but them is read anew then.
        """
        state = self._transcript.state
        if part in state.compared.values():
            return True
        if self._base is None or part != self._base.part or self._transcript.end > state.answered:
            return False
        is_recent, calls = state.answers - self._used_at <= 1, calls_of(self._transcript[state.answered - 1].message)
        return is_recent and bool(calls) and sum(self._repeated) >= max(_LEAST_RATE * len(self._repeated), 1)

    async def compare(self, fresh: Iterable[PartId]) -> dict[PartId, Difference]:
        """Return how new results differ from the ones that they repeat, where the view shows these."""
        found: dict[PartId, Difference] = {}
        for part in fresh if self._is_on else ():
            recent = self._known()
            if any(one.part == part for one in recent) or (result := self._result(part)) is None:
                continue
            self._recent.append(result)
            self._used_at = self._transcript.state.answers
            size = sum(map(len, result.lines)) * (1 + len(recent))
            shares = await in_thread_if_large(size, result.shares_in, recent)
            self._repeated.append(max(shares, default=0.0) >= _LEAST_SHARE)
            if (base := self._base_of(recent, shares)) is not None:
                found[part] = await in_thread_if_large(size, _compared, result, base, *self._about(result, base))
        return found

    def note(self, compared: Mapping[PartId, PartId], fresh: Sequence[PartId]) -> None:
        """Take what the newest of these results is compared with as the next base, or the result itself.

        Args:
            compared: The base of each unanswered result that is shown as a difference.
        """
        known = {one.part: one for one in self._known()}
        for part in fresh:
            if (base := known.get(compared.get(part, part))) is None or part in self._differing:
                continue
            is_same = self._base is not None and base.part == self._base.part
            self._spent = (self._spent if is_same else 0) + (self._tokens(part) if part in compared else 0)
            self._base = base
        self._differing = (self._differing | {*compared}) & {*known}

    def _tokens(self, part: PartId) -> int:
        stored = self._transcript[part[0]].part(part[1]).stored
        return stored.excerpt_tokens if stored else 0

    def _known(self) -> list[_Result]:
        is_older = self._base is not None and self._base not in self._recent
        return [*([self._base] if self._base and is_older else []), *self._recent]

    def _base_of(self, recent: Sequence[_Result], shares: Sequence[float]) -> _Result | None:
        shown = [(share, number) for number, share in enumerate(shares) if self._is_shown(recent[number].part)]
        share, number = max(shown, default=(0.0, 0))
        return recent[number] if share >= _LEAST_SHARE else None

    def _is_shown(self, part: PartId) -> bool:
        state = self._transcript.state
        is_reduced = part in state.compacted or part in state.shortened or part in self._differing
        return not is_reduced and part[0] >= state.start and not state.is_hidden(part[0])

    def _result(self, part: PartId) -> _Result | None:
        position, address = part
        entry = self._transcript[position]
        text = entry.text(address)
        if address.kind != "result" or text is None or len(text) > _MOST_CHARACTERS:
            return None
        call = self._transcript.call_answered_by(position, address.index)
        said = f"{call.name}({elided(call.arguments, _READ_OF_CALL)})" if call else entry.tool_of(address)
        name = elided(masked(said), _CALL_LIMIT).replace("[", "(").replace("]", ")")
        lines = _lines(text)
        return None if len(lines) > _MOST_LINES else _Result(part, name, lines, frozenset(lines))

    def _about(self, result: _Result, base: _Result) -> tuple[str, str, int, frozenset[str]]:
        """Return the key of the base, its name, the tokens spent on it, and the lines of its first view."""
        asking, (position, address) = self._transcript.pairing.asking, base.part
        steps = bisect_left(asking, result.part[0]) - bisect_left(asking, position)
        ago = f", {steps} steps before" if steps > 1 else ", one step before" if steps else ""
        stored = self._transcript[position].part(address).stored
        key = stored.refs[0].key if stored and stored.refs else ""
        shown = base.known if stored is None or stored.excerpt is None else frozenset(_lines(stored.excerpt))
        return key, f"the result of {base.name}{ago}", self._spent if base is self._base else 0, shown


def _lines(text: str) -> list[str]:
    return text.replace("\\n", "\\n\n").split("\n")  # as `_LINE_END` splits, without the line breaks


def _compared(
    result: _Result, base: _Result, key: str, name: str, spent_tokens: int, shown: frozenset[str]
) -> Difference:
    is_changed = [True] * len(result.lines)
    gone: list[str] = []
    # popular lines of long texts are no anchors: else the time grows with the square of their number
    for tag, i, j, k, m in SequenceMatcher(None, base.lines, result.lines).get_opcodes():
        if tag == "equal":
            is_changed[k:m] = [False] * (m - k)
        elif tag == "delete":
            gone += [line for line in base.lines[i:j] if line.strip() and line not in result.known]
    is_unseen = [new or line not in shown for new, line in zip(is_changed, result.lines, strict=True)]
    return Difference(base.part, key, name, spent_tokens, is_changed, is_unseen, gone)
