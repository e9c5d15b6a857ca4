"""Facts that an observer or a reflector left out, verbatim: errors, numbers, dates, paths, ids and names.

Beside them stands the artifact trail: each file, URL, record and command that tools touched, with its last action.

Recognition and ranking are those of compacted results (`compaction`), which rank by the one relevance score.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2

from autogen_core import FunctionCall

from memory_context.foundation.compactors.names import is_name, ranked_names, reads_as_order, stands_whole
from memory_context.foundation.compactors.salient import SalientFact, Statement, all_facts, exact_facts, salient_facts
from memory_context.foundation.credentials.masks import MASK, credentials_in, masked
from memory_context.foundation.messages import calls_of, long_strings
from memory_context.foundation.references import defused, one_line, shorten
from memory_context.foundation.text.tokenize import relevance, words_in
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.observations import ObservationLine
from memory_context.sessions.transcript.transcript import Transcript

from ..packing import runs_command
from .reading import ObservedMessage

__all__ = [
    "ARTIFACT_TRAIL_TOKENS",
    "FACTS_SHARE",
    "ArtifactTrail",
    "artifact_trail",
    "artifacts_of",
    "fact_lines",
    "facts_text",
    "missing_facts",
    "ranked_facts",
]


FACTS_SHARE = 0.15
"""Share of the observed tokens for facts that the observer left out."""
LEAST_FACTS_TOKENS = 60
"""Room for the facts of a few short messages."""

_SPOKEN_CHARACTERS = 5_000  # of task and answer, by which facts are ranked
_USERS_CHARACTERS = 20_000
LINE_TOKENS = 12  # bullet, time and numbers of messages
_LEAST_TOKENS = (24, 48)  # of one message, so that short ones keep a fact; of the user's
_PASSED_OVER = 20  # most facts skipped as too long
_STATED_FIRST = 8  # errors and outcomes before names
_AT_MOST = 400  # facts looked at in one message


def missing_facts(facts: Iterable[SalientFact], stated: Statement) -> list[SalientFact]:
    """Return the facts that a text does not state; one place of a number stands for one fact.

    Without credentials, and without what reads like an order to the agent.
    """
    needed: Counter[str] = Counter()
    missing: list[SalientFact] = []
    for fact in dict.fromkeys(facts):
        is_figure = fact.kind == "figure"
        needed[fact.needle] += is_figure
        if MASK in fact.text or reads_as_order(fact.text) or masked(fact.text) != fact.text:
            continue
        if not stated.says(fact, needed[fact.needle] if is_figure else 1):
            missing.append(fact)
    return missing


def ranked_facts(facts: Sequence[SalientFact], spoken_of: str) -> list[SalientFact]:
    """Return facts by relevance to the words of a text; equal ones keep their order."""
    wanted = words_in(spoken_of[:_SPOKEN_CHARACTERS])
    scores = relevance({number: words_in(fact.text) & wanted for number, fact in enumerate(facts)}, len(facts))
    return [facts[number] for number in sorted(range(len(facts)), key=lambda number: -scores[number])]


def facts_text(facts: Iterable[SalientFact], limit_tokens: int, counter: TokenCounter) -> str:
    """Return the first facts that fit, on one line, then a sub-bullet for each error; maybe ""."""
    told: list[SalientFact] = []
    passed_over = 0
    for fact in facts:
        text = "\n".join(one.text for one in told)
        wanted = replace(fact, needle=fact.text) if fact.kind == "figure" else fact  # 5 rows are not in 15 rows
        if Statement(text).says(wanted):
            continue
        cost = counter.count(fact.text) + 2
        if cost > limit_tokens:
            passed_over += 1
            if passed_over > _PASSED_OVER:
                break
            continue
        limit_tokens -= cost
        told.append(fact)
    errors = [f"- {fact.text}" for fact in told if fact.kind == "error"]
    others = [fact.text for fact in told if fact.kind != "error"]
    return "\n".join([*(["; ".join(others)] if others else []), *errors])


def fact_lines(
    messages: Sequence[ObservedMessage],
    lines: Sequence[ObservationLine],
    counter: TokenCounter,
    *,
    task: str = "",
) -> list[ObservationLine]:
    """Return lines with the facts of the messages that the observer's lines lack, within `FACTS_SHARE`.

    The user's messages come first, then each message gets its share; what is left over goes to the newest. Memory keys
    always stay.

    Args:
        task: The user's words before these messages.
    """
    stated = "\n".join(line.text for line in lines)
    missing = list(_missing_by_message(messages, stated, task))
    missing.sort(key=lambda pair: (pair[0].origin != "user", -pair[0].position))
    left = max(int(FACTS_SHARE * sum(message.tokens for message in messages)), LEAST_FACTS_TOKENS)
    found: dict[int, ObservationLine] = {}
    for is_first_round in (True, False):
        for message, facts in missing:
            before = _cost(found.get(message.position), counter)
            share = max(int(FACTS_SHARE * message.tokens), _LEAST_TOKENS[message.origin == "user"])
            room = min(share, left) if is_first_round else left + before
            line = _line(message, facts, room - LINE_TOKENS, stated, counter)
            if line is not None and (cost := _cost(line, counter)) > before:
                left -= cost - before
                found[message.position] = line
    return [found[position] for position in sorted(found)]


def _cost(line: ObservationLine | None, counter: TokenCounter) -> int:
    return 0 if line is None else counter.count(line.text) + LINE_TOKENS


def _line(
    message: ObservedMessage, facts: Sequence[SalientFact], limit_tokens: int, stated: str, counter: TokenCounter
) -> ObservationLine | None:
    keys = [f"stored as {key}" for key in message.keys if not stands_whole(key, stated)]
    text = facts_text(facts, limit_tokens, counter) if limit_tokens > 0 else ""
    if not keys and not text:
        return None
    head, _, rest = ("", "", text) if text.startswith("- ") else text.partition("\n")
    first = f"{one_line(message.source, 60)} (verbatim) {'; '.join([*keys, *([head] if head else [])])}".rstrip()
    ranges = ((message.position, message.position + 1),)
    text = "\n".join([first, rest]) if rest else first
    return ObservationLine(text, ranges, message.at, "user" if message.origin == "user" else "minor", "fact")


def _missing_by_message(
    messages: Sequence[ObservedMessage], stated: str, task: str
) -> Iterator[tuple[ObservedMessage, list[SalientFact]]]:
    """Yield each message with its facts, best first; a fact of several messages is the first one's."""
    known, statement = set[SalientFact](), Statement(stated)
    tools = {name for message in messages if message.origin == "tool" for name in message.source.split(", ")}
    for index, message in enumerate(messages):
        if message.origin == "user":
            task = message.text
        said = next((one.text for one in messages[index + 1 :] if one.origin == "agent"), "")
        facts = [fact for fact in _facts_of(message, task, said) if fact not in known and fact.text not in tools]
        known.update(facts)
        yield message, missing_facts(facts, statement)


def _facts_of(message: ObservedMessage, task: str, said: str) -> list[SalientFact]:
    task, said = task[:_SPOKEN_CHARACTERS], said[:_SPOKEN_CHARACTERS]
    if message.origin == "user":
        return all_facts(message.text[:_USERS_CHARACTERS])
    stated = salient_facts(message.text, f"{task}\n{said}")
    names = (
        SalientFact("id", name, name)
        for name in ranked_names(message.text, task=task, answer=said)
        if is_name(name) and stands_whole(name, message.text)
    )
    return [*stated[:_STATED_FIRST], *names, *stated[_STATED_FIRST:]][:_AT_MOST]


ARTIFACT_TRAIL_TOKENS = 300

_LEAD = "Touched by tools, by last action: "
_HALF_LIFE = 16
"""Messages with calls after which a touch counts half."""
_REMEMBERED = 500
"""Messages with calls after which an untouched artifact is forgotten."""
_LONGEST, _LONGEST_COMMAND = 160, 120
_READ_CHARACTERS, _READ_COMMAND = 1_000_000, 2_000
_MISFITS = 12
_NAMING = frozenset(
    ("dir", "directory", "file", "filename", "filepath", "folder", "href", "id", "ids", "link", "path", "paths")
).union(("uri", "url", "urls", "uuid"))
"""Last words of the names of arguments whose values are artifacts in any form."""
_VERBS = frozenset(("action", "command", "method", "operation", "tool_name"))
"""Arguments that say which of its actions a tool takes, such as `"command": "view"`."""


@dataclass(frozen=True)
class _Artifact:
    action: str
    number: int
    score: float


class ArtifactTrail:
    """The artifacts that calls touched, those touched last and most often first.

    Ranked by LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001), with scores that need no decay: each is
    the base-2 logarithm of the sum of `2 ** (number / half-life)` over its touches.
    """

    def __init__(self) -> None:
        self._artifacts: dict[str, _Artifact] = {}  # the longest untouched first
        self._range = (0, 0)

    def read(self, transcript: Transcript, start: int, end: int) -> None:
        """Take in the calls of these positions; what it has read from the same start on is not read again."""
        asking = transcript.pairing.asking
        first, last = bisect_left(asking, start), bisect_left(asking, end)
        if first != self._range[0] or last < self._range[1]:
            self._artifacts.clear()
            self._range = (first, first)
        for number in range(max(self._range[1], last - _REMEMBERED), last):
            for call in calls_of(transcript[asking[number]].message):
                if call.name not in transcript.state.offered.memory_tools:
                    self.touch(call, number)
        self._range = (first, last)
        for text in [*self._artifacts]:
            if self._artifacts[text].number >= last - _REMEMBERED:
                break
            del self._artifacts[text]

    def touch(self, call: FunctionCall, number: int) -> None:
        """Take in a call; `number` never falls."""
        for action, text in artifacts_of(call):
            before = self._artifacts.pop(text, None)
            score = number / _HALF_LIFE
            if before is not None:
                score += log2(1 + 2 ** (before.score - score))
            self._artifacts[text] = _Artifact(action, number, score)

    def text(self, limit_tokens: int, counter: TokenCounter) -> str:
        """Return one line, grouped by action; empty without artifacts or room."""
        groups: dict[str, list[str]] = {}
        room, misfits = limit_tokens - counter.count(_LEAD), 0
        for text, one in sorted(self._artifacts.items(), key=lambda pair: -pair[1].score):
            tokens = counter.count(f", {text}") + (0 if one.action in groups else counter.count(f"; {one.action} "))
            if tokens > room:
                misfits += 1
                if misfits == _MISFITS:
                    break
                continue
            room -= tokens
            groups.setdefault(one.action, []).append(text)
        if not groups:
            return ""
        return _LEAD + "; ".join(f"{action} {', '.join(texts)}" for action, texts in groups.items())


def artifact_trail(
    transcript: Transcript,
    start: int,
    end: int,
    *,
    counter: TokenCounter,
    limit_tokens: int = ARTIFACT_TRAIL_TOKENS,
) -> str:
    """Return the artifact trail of the messages from `start` to before `end`; "" if their calls touched nothing."""
    trail = ArtifactTrail()
    trail.read(transcript, start, end)
    return trail.text(limit_tokens, counter)


def artifacts_of(call: FunctionCall) -> list[tuple[str, str]]:
    """Return each action and artifact of a call; credentials are masked before a command is cut."""
    given = _strings_in(call)
    is_shell = runs_command(call.name)
    verbs = [value for name, value in given if name.lower() in _VERBS and value.isidentifier() and not is_shell]
    action = shorten(" ".join([call.name, *verbs]), _LONGEST)
    artifacts: list[tuple[str, str]] = []
    for name, value in given:
        if value in verbs or reads_as_order(value[:_READ_COMMAND]):
            continue
        if runs_command(call.name, name):
            first, _, more = masked(value[:_READ_COMMAND]).partition("\n")
            artifacts.append((action, f"`{defused(shorten(first, _LONGEST_COMMAND))}{' …' if more else ''}`"))
        elif _is_artifact(name, value) and not credentials_in(f"{name}: {value}"):
            artifacts.append((action, defused(value)))
    return artifacts


def _strings_in(call: FunctionCall) -> list[tuple[str, str]]:
    """Return the strings of a call's arguments, each with the name of its argument."""
    if len(call.arguments) > _READ_CHARACTERS:
        return []
    return [(_argument_of(pointer), value.strip()) for pointer, value in long_strings(call.arguments, 2)]


def _argument_of(pointer: str) -> str:
    return next((step for step in reversed(pointer.split("/")) if not step.isdecimal()), "")


def _is_artifact(name: str, value: str) -> bool:
    if not value or len(value) > _LONGEST or "\n" in value:
        return False
    is_named = name.lower().replace("-", "_").rpartition("_")[2] in _NAMING
    return is_named or any(fact.needle == value for fact in exact_facts(f"{name}: {value}"))
