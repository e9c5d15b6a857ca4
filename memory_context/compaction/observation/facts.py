"""Facts that an observer or a reflector left out, verbatim: errors, numbers, dates, paths, ids and names.

Recognition and ranking are those of compacted results (`compaction`), which rank by the one relevance score.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from memory_context.foundation.compactors.names import is_name, ranked_names, reads_as_order, stands_whole
from memory_context.foundation.compactors.salient import SalientFact, Statement, all_facts, salient_facts
from memory_context.foundation.credentials.masks import MASK, masked
from memory_context.foundation.references import one_line
from memory_context.foundation.text.relevance import relevance
from memory_context.foundation.text.tokenize import words_in
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.observations import ObservationLine

from .reading import ObservedMessage

__all__ = ["FACTS_SHARE", "fact_lines", "facts_text", "missing_facts", "ranked_facts"]

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
