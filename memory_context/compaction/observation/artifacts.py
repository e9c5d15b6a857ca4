"""The artifact trail: each file, URL, record and command that tools touched, with its last action, from the calls."""

from bisect import bisect_left
from dataclasses import dataclass
from math import log2

from autogen_core import FunctionCall

from memory_context.foundation.compactors.names import reads_as_order
from memory_context.foundation.compactors.salient import exact_facts
from memory_context.foundation.credentials.masks import credentials_in, masked
from memory_context.foundation.messages import calls_of, long_strings
from memory_context.foundation.references import defused, shorten
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.transcript import Transcript

from ..packing import runs_command

__all__ = ["ARTIFACT_TRAIL_TOKENS", "ArtifactTrail", "artifact_trail", "artifacts_of"]

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
