"""The reflector: shortens a log by edits, so that lines without an edit keep their bytes and every line its messages.

A model proposes; a text that says more than its lines is refused, and what an edit would lose is appended verbatim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

from memory_context.foundation.compactors.names import reads_as_order
from memory_context.foundation.compactors.salient import SalientFact, Statement, all_facts
from memory_context.foundation.errors import LightModelError
from memory_context.foundation.patterns import regex
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.observations import (
    Edit,
    ObservationChunk,
    ObservationLine,
    ObservationRecord,
    reflected_chunks,
)

from .attribution import claims_user, is_covered
from .facts import facts_text, missing_facts, ranked_facts
from .parsing import CompletionFunction, ModelCalls, parsed_edits
from .prompts import DETAIL, REFLECTOR_INSTRUCTIONS, log_line, reflector_prompt

__all__ = ["ReflectorOutput", "compute_effective_reflection_threshold", "run_reflector"]

MOST_LEVEL = len(DETAIL) - 1
_REFLECTION_SHARE = 0.2
"""Share of the agent's window that a log may take."""
_WINDOW_SHARE = 0.5
"""Share of the light model's window that a log may take, so that one call can read it and answer."""
_FACTS_SHARE = 0.3  # of the limit, for facts of edited lines; more if there is room
_LEAST_ANSWER = 400
_OVERHEAD_TOKENS = 150
_DROPS_USER_LEVEL = 3  # from here on a line of the user's may be dropped
_PIECES = regex(r"[-–—/:.]+")


@dataclass(frozen=True)
class ReflectorOutput:
    """Edits of a log.

    Attributes:
        tokens: Of each chunk after the edits of a model.
        level: Compression level reached, 0 to 4.
        record: None for edits without a model.
    """

    edits: tuple[Edit, ...]
    tokens: tuple[int, ...] = ()
    level: int = 0
    record: ObservationRecord | None = None


def compute_effective_reflection_threshold(window_tokens: int, light_window_tokens: int) -> int:
    """Return the size of a log that must shrink, in tokens: a share of the window, at most half the light model's."""
    return min(int(_REFLECTION_SHARE * window_tokens), int(_WINDOW_SHARE * light_window_tokens))


async def run_reflector(
    complete: CompletionFunction | None,
    chunks: Sequence[ObservationChunk],
    *,
    limit_tokens: int,
    level: int,
    instructions: str,
    counter: TokenCounter,
    light_window_tokens: int,
    now: datetime,
    is_sync: bool = False,
) -> ReflectorOutput:
    """Return edits that bring a log within a limit, or as near as the highest level does.

    Each level asks anew for stronger compression of the same log. Of a log that does not fit the light model's window
    the oldest lines are edited.

    Args:
        limit_tokens: Of all chunks together after the edits.
        level: Compression level to begin with.
        is_sync: Recorded.

    Raises:
        LightModelError: There is no model, it failed, or no level gave edits that shorten the log.
    """
    asker = _Asker(ModelCalls(complete, counter), instructions, counter, light_window_tokens, limit_tokens, now)
    before = sum(chunk.tokens for chunk in chunks)
    size = sum(len(line.text) for chunk in chunks for line in chunk.lines)
    best: ReflectorOutput | None = None
    failure = LightModelError("no edit of the log shortens it")
    for step in range(level, MOST_LEVEL + 1):
        try:
            proposed = await asker.ask(chunks, step)
        except LightModelError as error:
            failure = error
            break
        reflection = _Reflection(chunks, proposed, step, limit_tokens, counter)
        edits, tokens = await in_thread_if_large(size, reflection.result)
        if edits and sum(tokens) < (before if best is None else sum(best.tokens)):
            best = ReflectorOutput(edits, tokens, step)
        if edits and sum(tokens) <= limit_tokens:
            break
    if best is None:
        raise failure
    facts_added = sum(edit.kind == "fact" for edit in best.edits)
    record = replace(asker.calls.record, input_tokens=before, facts_added=facts_added, is_sync=is_sync)
    return replace(best, record=record)


@dataclass(frozen=True)
class _Asker:
    """Asks for edits at a level, about as many of the oldest lines as one call can read."""

    calls: ModelCalls
    instructions: str
    counter: TokenCounter
    window_tokens: int
    limit_tokens: int
    now: datetime

    async def ask(self, chunks: Sequence[ObservationChunk], level: int) -> list[Edit]:
        instruction = self.instructions
        told = self.counter.count(REFLECTOR_INSTRUCTIONS) + self.counter.count(instruction) + _OVERHEAD_TOKENS
        room = int((self.window_tokens - told) * _WINDOW_SHARE)
        read = _oldest([line for chunk in chunks for line in chunk.lines], room, self.counter)
        if not read:
            raise LightModelError(f"a window of {self.window_tokens} tokens is too small to reflect")
        known = [line.id for line in read]
        prompt = partial(
            reflector_prompt, read, level=level, limit_tokens=self.limit_tokens, instruction=instruction, now=self.now
        )
        limit = max(min(self.limit_tokens, room), _LEAST_ANSWER)
        return await self.calls.ask(prompt, lambda text: parsed_edits(text, known) or None, limit)


def _oldest(lines: Sequence[ObservationLine], limit_tokens: int, counter: TokenCounter) -> list[ObservationLine]:
    kept: list[ObservationLine] = []
    for line in lines:
        limit_tokens -= counter.count(log_line(line)) + 1
        if limit_tokens < 0:
            break
        kept.append(line)
    return kept


class _Reflection:
    """Edits of one answer: checked against their lines, then completed by the facts that they would lose."""

    def __init__(
        self,
        chunks: Sequence[ObservationChunk],
        proposed: Sequence[Edit],
        level: int,
        limit_tokens: int,
        counter: TokenCounter,
    ) -> None:
        self._chunks = chunks
        self._counter = counter
        self._level = level
        self._limit_tokens = limit_tokens
        self.lines = {line.id: line for chunk in chunks for line in chunk.lines}
        self._edits = [one for edit in proposed if (one := self._allowed(edit)) is not None]

    def result(self) -> tuple[tuple[Edit, ...], tuple[int, ...]]:
        """Return the edits with facts, and the tokens of each chunk after them; no edits if none may be made."""
        edits = self._by_chunk(self._edits)
        if not self._leaves_any(edits):
            return (), ()
        bare = sum(self._tokens(edits))
        room = max(self._limit_tokens - bare, int(_FACTS_SHARE * self._limit_tokens))
        mended = self._mended(edits, room)
        return tuple(mended), self._tokens(mended)

    def _allowed(self, edit: Edit) -> Edit | None:
        """Return what may be done of an edit: the user's lines stay, and stay apart; no text claims what is new."""
        lines = [self.lines[one] for one in edit.ids]
        users = [line.id for line in lines if line.priority == "user"]
        if edit.operation == "drop":
            kept = users if self._level < _DROPS_USER_LEVEL else []
            return Edit("drop", ids) if (ids := tuple(one for one in edit.ids if one not in kept)) else None
        is_mixed = 0 < len(users) < len(lines)
        is_order = reads_as_order(edit.text) and not any(reads_as_order(line.text) for line in lines)
        is_claim = claims_user(edit.text) and not any(claims_user(line.text) for line in lines)
        is_new = bool(users) and not is_covered(edit.text, [line.text for line in lines])
        return None if is_mixed or is_order or is_claim or is_new or not self._is_supported(edit, lines) else edit

    def _is_supported(self, edit: Edit, lines: Sequence[ObservationLine]) -> bool:
        """Return whether each number, path and id of an edit stands in one of its lines; dates and counts are known."""
        times = (f"{line.at.astimezone(timezone.utc):%Y-%m-%d %H:%M}" for line in lines)
        known = Statement("\n".join([*(line.text for line in lines), *times, str(len(lines))]))
        for fact in all_facts(edit.text):
            if fact.kind == "error" or known.says(fact):
                continue
            pieces = [piece for piece in _PIECES.split(fact.needle) if piece]
            if len(pieces) < 2 or not all(known.says(replace(fact, needle=piece)) for piece in pieces):
                return False
        return True

    def _by_chunk(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return the edits with all drops of a chunk as one."""
        dropped = {one for edit in edits if edit.operation == "drop" for one in edit.ids}
        drops = (tuple(line.id for line in chunk.lines if line.id in dropped) for chunk in self._chunks)
        return [
            *(edit for edit in edits if edit.operation != "drop"),
            *(Edit("drop", ids) for ids in drops if ids),
        ]

    def _leaves_any(self, edits: Sequence[Edit]) -> bool:
        """Return whether there are edits, and a line that is not dropped."""
        dropped = {one for edit in edits if edit.operation == "drop" for one in edit.ids}
        return bool(edits) and any(one not in dropped for one in self.lines)

    def _mended(self, edits: Sequence[Edit], room_tokens: int) -> list[Edit]:
        """Return the edits with the facts that would be lost, as far as there is room."""
        lost = self._lost(edits)
        fitting = self._fitting([fact for facts in lost.values() for fact in facts], room_tokens)
        mended: list[Edit] = []
        for edit in edits:
            facts = [fact for fact in lost.get(edit, ()) if fact in fitting]
            text = facts_text(facts, room_tokens, self._counter)
            mended.append(_with_facts(edit, text) if text else edit)
        return mended

    def _lost(self, edits: Sequence[Edit]) -> dict[Edit, list[SalientFact]]:
        """Return the facts of edited lines that the log after the edits does not state; lines that stay count first."""
        edited = {one for edit in edits for one in edit.ids}
        kept = [line.text for one, line in self.lines.items() if one not in edited]
        owners: dict[SalientFact, Edit | None] = dict.fromkeys(fact for text in kept for fact in all_facts(text))
        for edit in edits:
            for fact in (fact for one in edit.ids for fact in all_facts(self.lines[one].text)):
                owners.setdefault(fact, edit)
        lost: dict[Edit, list[SalientFact]] = {}
        for fact in missing_facts(owners, Statement("\n".join([*kept, *(edit.text for edit in edits)]))):
            if (owner := owners[fact]) is not None:
                lost.setdefault(owner, []).append(fact)
        return lost

    def _fitting(self, facts: Sequence[SalientFact], room_tokens: int) -> set[SalientFact]:
        """Return the facts that fit; of too many those near the words of the newest chunk and of the user."""
        newest = self._chunks[-1]
        said = [line.text for line in self.lines.values() if line.priority == "user"]
        told = "\n".join([newest.current_task, *said, *(line.text for line in newest.lines)])
        fitting: set[SalientFact] = set()
        for fact in ranked_facts([*reversed(facts)], told):
            room_tokens -= self._counter.count(fact.text) + 2
            if room_tokens < 0:
                break
            fitting.add(fact)
        return fitting

    def _tokens(self, edits: Sequence[Edit]) -> tuple[int, ...]:
        chunks = reflected_chunks(self._chunks, edits, max(self.lines) + 1)
        return tuple(chunk.tokens or self._counter.count(chunk.text) for chunk in chunks)


def _with_facts(edit: Edit, facts: str) -> Edit:
    if edit.operation == "drop":
        text = f"(verbatim) {facts}" if not facts.startswith("- ") else f"(verbatim)\n{facts}"
        return Edit("merge" if len(edit.ids) > 1 else "reword", edit.ids, text, "minor", "fact")
    return replace(edit, text=f"{edit.text}\n{facts}" if facts.startswith("- ") else f"{edit.text}\n- (also) {facts}")
