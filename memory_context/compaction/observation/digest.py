"""Observations without a model: digests of messages, and edits that condense a log. Pure and deterministic.

A digest keeps the user's words, the outcome of each call and the keys of what is stored. Condensing loses wording, the
oldest first; names, numbers and errors go last, and each line still leads to its messages.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResult

from memory_context.foundation.compactors.compactor import Hint, Result
from memory_context.foundation.compactors.names import reads_as_order
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.compactors.salient import exact_facts
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.messages import Address, calls_of, results_of
from memory_context.foundation.references import QUOTATION, one_line
from memory_context.foundation.text.lexicon import ENGLISH_STOP_WORDS, NEGATIONS
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.entries import Entry, StoredPart
from memory_context.sessions.transcript.observations import Edit, ObservationChunk, ObservationLine, Priority

from .artifacts import ARTIFACT_TRAIL_TOKENS, ArtifactTrail, artifacts_of
from .reading import ObservedMessage

__all__ = ["digest_edits", "digest_lines", "stored_lines"]

_SAID_CHARACTERS, _ANSWER_CHARACTERS, _SHORT_RESULT = 400, 240, 160
_FACTS_TOKENS = 48
_EDGES = ".,;:!?\"'()"
_TRAIL_SHARE = 0.25
_LINE_OVERHEAD_TOKENS = 12  # bullet, time, priority and numbers of messages
_COMPACTORS = Compactors()


@dataclass(frozen=True)
class _Level:
    """How far to condense.

    Attributes:
        lines: The most that become one.
        characters: Of each line of words.
        tokens: Of the names in a group.
        apart: Priorities whose lines stay lines of their own.
    """

    lines: int
    characters: int
    tokens: int
    apart: tuple[Priority, ...] = ()


_LEVELS = (
    _Level(6, 400, 40, ("user", "project")),
    _Level(20, 160, 40, ("user",)),
    _Level(20, 80, 40),
    _Level(60, 40, 60),
    _Level(200, 20, 60),
)
_PRIORITIES: tuple[Priority, ...] = ("user", "project", "minor", "done")
_Group = tuple[Sequence[ObservationLine], str]


def digest_lines(
    messages: Sequence[ObservedMessage],
    entries: Sequence[Entry],
    *,
    limit_tokens: int,
    counter: TokenCounter,
    masks: bool = True,
) -> list[ObservationLine]:
    """Return dated lines within a limit: words, calls with status and description, and facts as far as they fit.

    Args:
        messages: As an observer reads them.
        entries: The same messages; for one that is missing, the text read stands alone.
    """
    hint = Hint(facts_limit_tokens=0, excerpt_limit_tokens=0, counter=counter, masks_credentials=masks)
    made = list(_lines(messages, {entry.position: entry for entry in entries}, hint))
    lines = [line for line, _ in made]
    room = limit_tokens - sum(_tokens(line.text, counter) for line in lines)
    if room < 0:
        return _condensed_with_trail(lines, entries, limit_tokens, counter, masks)
    for index in range(len(made) - 1, -1, -1):
        line, facts = made[index]
        text = cut_to_tokens(one_line(facts, 4 * _FACTS_TOKENS), _FACTS_TOKENS, counter).strip()
        room -= counter.count(text) + 4 if text else 0
        if room < 0:
            break
        if text:
            lines[index] = replace(line, text=f"{line.text}\n- {text}")
    return lines


def digest_edits(chunks: Sequence[ObservationChunk], *, limit_tokens: int, counter: TokenCounter) -> tuple[Edit, ...]:
    """Return edits after which the lines of a log take about `limit_tokens`; the oldest are merged first."""
    lines = [line for chunk in chunks for line in chunk.lines]
    edits: list[Edit] = []
    for group, text in _groups_within(lines, limit_tokens, counter):
        if len(group) > 1 or text != group[0].text:
            kind = "fact" if all(line.kind == "fact" for line in group) else "digest"
            ids = tuple(line.id for line in group)
            edits.append(Edit("merge" if len(ids) > 1 else "reword", ids, text, kind=kind))
    return tuple(edits)


def stored_lines(entry: Entry) -> list[str]:
    """Return key and description of each stored part of a message, and whether it failed."""
    stored = [part.stored for part in entry.measured if part.stored]
    return [f"{ref.key}: {_failure(one)}{ref.description}" for one in stored for ref in one.refs]


def _failure(stored: StoredPart) -> str:
    return "failed, " if stored.compacted.partition("[MemoryRef")[0].rstrip().endswith(" failed.") else ""


def _lines(
    messages: Sequence[ObservedMessage], entries: dict[int, Entry], hint: Hint
) -> Iterator[tuple[ObservationLine, str]]:
    """Yield the line of each message of words and of each result, with the facts of the result."""
    asked: dict[str, tuple[int, FunctionCall]] = {}
    for message in messages:
        entry = entries.get(message.position)
        for call in calls_of(entry.message) if entry else ():
            asked[call.id] = message.position, call
        if entry is not None and (results := results_of(entry.message)):
            for index, result in enumerate(results):
                first, call = asked.pop(result.call_id, (message.position, None))
                text, facts = _result_line(entry, index, result, call, hint)
                is_failure = " failed, " in text[:80]
                yield _line(text, first, message, "project" if is_failure else "minor"), facts
        elif not (entry and calls_of(entry.message)):
            priority: Priority = "user" if message.origin == "user" else "project"
            yield _line(_words(message, entry), message.position, message, priority), ""


def _line(text: str, first: int, message: ObservedMessage, priority: Priority) -> ObservationLine:
    return ObservationLine(text, ((first, message.position + 1),), message.at, priority, "digest")


def _words(message: ObservedMessage, entry: Entry | None) -> str:
    """Return who says what: the beginning and, of long words, the end; with the key of what is stored."""
    text, keys = message.text, message.keys
    for part in entry.measured if entry else ():
        for ref in part.stored.refs if part.stored else ():
            text = text.replace(ref.render(), "", 1)
    verb = "answered" if message.origin == "agent" else "said"
    limit = _ANSWER_CHARACTERS if message.origin == "agent" else _SAID_CHARACTERS
    said = one_line(text, limit)
    if len(text) > 2 * limit:
        said = f"{one_line(text, limit * 2 // 3)} {one_line(text[-limit // 3 :])}"
    return f"{message.source} {verb}{''.join(f' {key}' for key in keys)}: {said}"


def _result_line(
    entry: Entry, index: int, result: FunctionExecutionResult, call: FunctionCall | None, hint: Hint
) -> tuple[str, str]:
    """Return what a result is, with the exact artifacts of its call, or its few words; and the facts views keep."""
    part = next((one for one in entry.measured if one.address == Address("result", index)), None)
    if part is not None and (stored := part.stored) is not None:
        facts = [line.removeprefix("> ") for line in stored.compacted.split("\n")[1:] if line != QUOTATION]
        described = [f"{ref.key}: {_failure(stored)}{_exact(ref.description, call, hint)}" for ref in stored.refs]
        return "; ".join(described) or f"{result.name}: {one_line(stored.compacted)}", "; ".join(reversed(facts))
    arguments = call.arguments if call is not None else ""
    compacted = _COMPACTORS.compact(Result(result.content, result.name, arguments, result.is_error), hint)
    is_short = len(result.content) <= _SHORT_RESULT and not reads_as_order(result.content)
    short = masked(result.content) if is_short and hint.masks_credentials else result.content
    answered = f": {one_line(short, _SHORT_RESULT)}" if is_short else ""
    return f"{compacted.status.rstrip('.')}, {_exact(compacted.description, call, hint)}{answered}", ""


def _exact(description: str, call: FunctionCall | None, hint: Hint) -> str:
    """Return a description, with the artifacts of its call instead of cut arguments."""
    touched = artifacts_of(call, hint.masks_credentials) if call is not None else []
    missing = [text for _, text in touched if text.strip("`") not in description]
    return ", ".join([*missing, description.rpartition("…, ")[2]]) if missing else description


def _condensed_with_trail(
    lines: Sequence[ObservationLine], entries: Sequence[Entry], limit_tokens: int, counter: TokenCounter, masks: bool
) -> list[ObservationLine]:
    trail = ArtifactTrail(masks)
    for number, entry in enumerate(entries):
        for call in calls_of(entry.message):
            trail.touch(call, number)
    text = trail.text(min(ARTIFACT_TRAIL_TOKENS, int(_TRAIL_SHARE * limit_tokens)), counter)
    condensed = _condensed(lines, limit_tokens - (_tokens(text, counter) if text else 0), counter)
    if text:
        whole = ((condensed[0].ranges[0][0], condensed[-1].ranges[-1][1]),)
        condensed.append(ObservationLine(text, whole, condensed[-1].at, "minor", "digest"))
    return condensed


def _condensed(lines: Sequence[ObservationLine], limit_tokens: int, counter: TokenCounter) -> list[ObservationLine]:
    condensed: list[ObservationLine] = []
    for group, text in _groups_within(lines, limit_tokens, counter):
        first, last = group[0].ranges[0][0], group[-1].ranges[-1][1]
        priority = next(one for one in _PRIORITIES if any(line.priority == one for line in group))
        condensed.append(replace(group[-1], text=text, ranges=((first, last),), priority=priority))
    return condensed


def _groups_within(lines: Sequence[ObservationLine], limit_tokens: int, counter: TokenCounter) -> list[_Group]:
    """Return the lines in groups, each with its new text, condensed from the oldest on as far as it takes."""
    sizes = [_tokens(line.text, counter) for line in lines]
    groups: list[_Group] = []
    for level in _LEVELS:
        groups, size, done = [], sum(sizes), 0
        while done < len(lines) and size > limit_tokens:
            group = _next_group(lines[done : done + level.lines], level)
            before, text = sum(sizes[done : done + len(group)]), _merged_text(group, level, counter)
            after = _tokens(text, counter)
            groups += [(group, text)] if after < before else [((line,), line.text) for line in group]
            size -= max(before - after, 0)
            done += len(group)
        groups += [((line,), line.text) for line in lines[done:]]
        if size <= limit_tokens:
            return groups
    text = "; ".join(text for _, text in groups)
    return [(lines, cut_to_tokens(text, max(limit_tokens - _LINE_OVERHEAD_TOKENS, 1), counter, side="end"))]


def _next_group(lines: Sequence[ObservationLine], level: _Level) -> Sequence[ObservationLine]:
    end = next((index for index, line in enumerate(lines) if line.priority in level.apart), len(lines))
    return lines[: end or 1]


def _merged_text(group: Sequence[ObservationLine], level: _Level, counter: TokenCounter) -> str:
    """Return the telling words of lines of words, then URLs, paths and ids of all: the most frequent, the newest."""
    kept = _told([line.text for line in group if _is_words(line)], level.characters)
    counts = Counter(
        fact.needle
        for line in reversed(group)
        for fact in exact_facts(line.text)
        if f"{fact.needle}…" not in line.text  # a cut name is none
    )
    room = level.tokens
    for name, _ in counts.most_common():
        tokens = counter.count(name) + 1
        if tokens <= room and not any(name in one for one in kept):
            kept.append(one_line(name))
            room -= tokens
    return "; ".join(kept) or f"{len(group)} steps"


def _told(texts: Sequence[str], characters: int) -> list[str]:
    """Return texts within a length each: whole, else their rarest words in order, without stop words."""
    words = [[word for word in text.split() if _is_telling(word)] for text in texts]
    counts = Counter(word.casefold() for some in words for word in some)
    return [
        one_line(text if len(text) <= characters else " ".join(_rarest(some, counts, characters)) or text, characters)
        for text, some in zip(texts, words, strict=True)
    ]


def _rarest(words: Sequence[str], counts: Counter[str], characters: int) -> Iterator[str]:
    chosen: set[int] = set()
    for index in sorted(range(len(words)), key=lambda index: counts[words[index].casefold()]):
        characters -= len(words[index]) + 1
        if characters < 0:
            break
        chosen.add(index)
    return (word for index, word in enumerate(words) if index in chosen)


def _is_telling(word: str) -> bool:
    bare = word.strip(_EDGES).casefold()
    return bare not in ENGLISH_STOP_WORDS or bare in NEGATIONS


def _is_words(line: ObservationLine) -> bool:
    return line.kind != "fact" and line.priority in ("user", "project")


def _tokens(text: str, counter: TokenCounter) -> int:
    return counter.count(text) + _LINE_OVERHEAD_TOKENS
