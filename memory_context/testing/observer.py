"""A scripted observer and reflector: terse answers in the form that their prompts ask for, by rule."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from autogen_core.models import LLMMessage

__all__ = ["observe_by_script"]

_OBSERVED = re.compile(
    r"^=== (\d+) \| (\w+)[^|\n]* \| (\d\d:\d\d)\n(.*?)(?=^=== |^</memory|\Z)", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^result of [^\n]*:\n", re.MULTILINE)
_CALLED = re.compile(r"called (\S+) with:\n([^\n]*)")
_LOGGED = re.compile(r"^\[(\d+)\] \S+ \S+ (!!|!|~|x) (.*)", re.MULTILINE)
_WORDS = {"user": 40, "agent": 20, "tool": 10, "other": 20}
_LIMIT = re.compile(r"at most (\d+) tokens")
_MERGED, _KEPT_WORDS = 6, 5
_LINE_OVERHEAD, _CHARACTERS_PER_TOKEN = 30, 2


def observe_by_script(messages: Sequence[LLMMessage]) -> str:
    """Return what a small model might answer to an observer's or a reflector's prompt; "{}" to any other.

    An observer's line has the first words of a message, or a call and the first words of its result. A reflector merges
    the oldest lines, six to one with a few words of each, until the log is as short as it is told.
    """
    text = "\n".join(message.content for message in messages if isinstance(message.content, str))
    if observed := _OBSERVED.findall(text):
        lines = "\n".join(_observations(observed))
        return f"<observations>\n{lines}\n</observations>\n<current-task>\n\n</current-task>"
    if logged := _LOGGED.findall(text):
        limit = _LIMIT.search(text)
        return "\n".join(_edits(logged, int(limit[1]) if limit else 0))
    return "{}"


def _observations(observed: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    called = ""
    for number, origin, at, text in observed:
        if calls := _CALLED.findall(text):
            called = "; ".join(f"{tool} {arguments[:80]}" for tool, arguments in calls)
            continue
        said = _HEADING.sub("", text).split()
        words = " ".join(said[: min(_WORDS[origin], 5 + len(said) // 6)])
        mark = {"user": "!!", "agent": "!"}.get(origin, "~")
        yield f"- {at} {mark} {called} gave {words} ({number})" if called else f"- {at} {mark} {words} ({number})"
        called = ""


def _edits(logged: Sequence[tuple[str, str, str]], limit_tokens: int) -> Iterator[str]:
    excess = sum(len(text) + _LINE_OVERHEAD for _, _, text in logged) - _CHARACTERS_PER_TOKEN * limit_tokens
    for _, same in groupby(logged, lambda line: line[1] == "!!"):  # the user's lines merge among each other only
        lines = list(same)
        for start in range(0, len(lines), _MERGED):
            if excess <= 0:
                return
            group = lines[start : start + _MERGED]
            kept = "; ".join(" ".join(text.split()[:_KEPT_WORDS]) for _, _, text in group)
            excess -= sum(len(text) + _LINE_OVERHEAD for _, _, text in group) - len(kept) - _LINE_OVERHEAD
            yield f"{'merge' if len(group) > 1 else 'reword'} {', '.join(number for number, _, _ in group)}: {kept}"
