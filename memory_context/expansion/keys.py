"""Keys in the user's words: those that are on offer, and those that look like keys but are not.

Only the words of people and agents are read this way, never the text of a tool's result: references are structural,
and a text that imitates one opens nothing.
"""

import re
from collections.abc import Collection

from ..references import KEY_PATTERN

__all__ = ["named_keys", "unknown_keys"]

_UNKNOWN_LIMIT = 5
_LONGEST_KEY = 64
_RUN = re.compile(r"[A-Za-z0-9_.-]+")
_IN_PLACEHOLDER = re.compile(rf"\[MemoryRef: ({KEY_PATTERN.pattern})(?![A-Za-z0-9_.-])")
_KEY_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*_(?=[a-z]*[2-7])[a-z2-7]{6,20}")


def named_keys(text: str, known: Collection[str]) -> list[str]:
    """Return the known keys that stand in a text as whole words, in order, each once; linear in the text.

    A key in quotes, backticks, brackets or a placeholder counts, also before a full stop or a dash. Letters have their
    case, and `log_k3f7x2` is not in `log_k3f7x2b` or `my_log_k3f7x2`.
    """
    wanted = frozenset(known)
    found: dict[str, None] = {}
    for match in _RUN.finditer(text) if wanted else ():
        for token in _readings(match[0]):
            if token in wanted:
                found[token] = None
                break
    return list(found)


def unknown_keys(text: str, known: Collection[str] = ()) -> list[str]:
    """Return up to five key-shaped words that are not known; they may be of another session.

    That is what stands as key in `[MemoryRef: key …`, or a stem, `_` and 6 to 20 characters of a-z and 2-7 with a digit
    among them. Words such as `my_table2` have that shape too: look a key up before relying on it.
    """
    known = frozenset(known)
    found: dict[str, None] = {}
    for match in _IN_PLACEHOLDER.finditer(text):
        if match[1] not in known:
            found[match[1]] = None
    for match in _RUN.finditer(text):
        for token in _readings(match[0]):
            if token not in known and _KEY_SHAPE.fullmatch(token):
                found[token] = None
        if len(found) >= _UNKNOWN_LIMIT:
            break
    return list(found)[:_UNKNOWN_LIMIT]


def _readings(run: str) -> list[str]:
    """Return the keys a run of key characters can stand for: punctuation at its end may belong to the sentence."""
    run = run.lstrip("._-")  # no key begins with these
    core = len(run.rstrip("._-"))
    return (
        [run[:end] for end in range(min(len(run), _LONGEST_KEY), core - 1, -1) if end] if core <= _LONGEST_KEY else []
    )
