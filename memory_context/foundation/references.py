"""References: key, description and token count of stored content, rendered as placeholders.

For example `[MemoryRef: npm_install_k3f7x2 - npm install output, 500 lines - 2340 tokens]`. No search of texts finds
them, so an imitation opens nothing.
"""

import hashlib
import re
from base64 import b32encode
from collections import OrderedDict
from dataclasses import dataclass, replace

from .patterns import regex
from .utf8 import sayable, to_utf8

__all__ = [
    "DESCRIPTION_LIMIT",
    "IMAGE_TYPE",
    "KEY_PATTERN",
    "PNG",
    "QUOTATION",
    "MemoryRef",
    "ToolAnswer",
    "ToolAnswerRegistry",
    "defused",
    "describe_image",
    "elided",
    "fenced",
    "memory_key_for",
    "one_line",
    "shorten",
]

KEY_PATTERN = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DESCRIPTION_LIMIT = 160
QUOTATION = "Quoted from it:"
"""Between a placeholder and the kept lines of the content."""
IMAGE_TYPE = "image"
"""Type of items that are images: bytes with a MIME type, of which text has a line."""
PNG = "image/png"

_PLACEHOLDER = regex(rf"\[MemoryRef: ({KEY_PATTERN.pattern}) - ([^\]\r\n]*) - (\d+) tokens\]")
_FORGERY = regex(r"\[(?=\s*MemoryRef\b)|<(?=\s*/?\s*(?:memory-|connector_state))", re.IGNORECASE)
_NOT_IN_LINE = regex(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_NOT_IN_KEY = regex(r"[^A-Za-z0-9_.-]+")
_PNG_HEAD = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class MemoryRef:
    """A reference to one stored item.

    Attributes:
        key: Unique per user.
        description: One line, at most 160 characters, without `]`.
        token_count: Tokens of the whole content.
    """

    key: str
    description: str
    token_count: int

    def __post_init__(self) -> None:
        if not KEY_PATTERN.fullmatch(self.key):
            raise ValueError(
                f"{self.key!r} is no memory key: use 1-64 of A-Z a-z 0-9 _ . -, beginning with a letter or digit"
            )
        if self.token_count < 0:
            raise ValueError(f"token_count must not be negative, got {self.token_count!r}")
        object.__setattr__(self, "description", one_line(self.description))

    def render(self) -> str:
        return f"[MemoryRef: {self.key} - {self.description} - {self.token_count} tokens]"

    __str__ = render

    def headline(self) -> str:
        """Line above whole content."""
        return replace(self, description="shown whole below").render()

    @classmethod
    def parse(cls, text: str) -> "MemoryRef | None":
        """Return the reference of one placeholder, else None."""
        match = _PLACEHOLDER.fullmatch(text)
        return cls(match[1], match[2], int(match[3])) if match else None


def one_line(text: str, limit: int = DESCRIPTION_LIMIT) -> str:
    """Return one line without square brackets."""
    return shorten(text, limit).replace("[", "(").replace("]", ")")


def shorten(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters."""
    # an early cut bounds the cost
    line = _NOT_IN_LINE.sub(" ", text[: limit * 8]).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def elided(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters with both ends of a longer text; a path keeps its file's name."""
    if len(text) > limit * 16:  # an early cut bounds the cost
        text = f"{text[: limit * 8]} {text[-limit * 8 :]}"
    line = _NOT_IN_LINE.sub(" ", text).strip()
    if len(line) <= limit:
        return line
    room = max(limit - 1, 1)
    tail = room * 3 // 5  # the end of a path or command differs more often than its beginning
    name = len(line) - max(line.rfind("/"), line.rfind("\\"))
    if tail < name <= room - room // 8:
        tail = name
    return f"{line[: room - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def defused(text: str) -> str:
    """Return text of others so that it can imitate no placeholder and no mark of `fenced`."""
    return _FORGERY.sub("(", text)


def fenced(body: str) -> str:
    """Return a defused text between marks that carry its hash."""
    mark = f"memory-{hashlib.sha256(to_utf8(body)).hexdigest()[:8]}"
    return f"<{mark}>\n{body}\n</{mark}>"


def memory_key_for(source: str, identity: tuple[str, ...], content: str, suffix_length: int = 6) -> str:
    """Return a deterministic key, so that retries are idempotent; `identity` is agent, session, type.

    One in about 2^30 pairs collides; the store then takes a longer suffix.
    """
    digest = hashlib.sha256()
    for field in (*identity, source, content):
        data = to_utf8(field)
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    suffix = b32encode(digest.digest()).decode("ascii").lower()[:suffix_length]
    if not any(map(str.isdigit, suffix)):  # keys, unlike names such as read_results, have digits
        suffix = suffix[:-1] + "234567"[digest.digest()[-1] % 6]
    stem = _NOT_IN_KEY.sub("_", source).strip("_.-")[: 63 - suffix_length] or "item"
    return f"{stem}_{suffix}"


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a memory tool; `shows_content` is False if it refers to content shown before."""

    label: str
    shows_content: bool = True


class ToolAnswerRegistry:
    """An LRU of memory tool answers."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._answers: OrderedDict[tuple[str, bytes], ToolAnswer] = OrderedDict()

    def add(self, user_id: str, answer: str, tool_answer: ToolAnswer) -> None:
        key = (user_id, _digest(answer))
        self._answers[key] = tool_answer
        self._answers.move_to_end(key)
        while len(self._answers) > self._capacity:
            self._answers.popitem(last=False)

    def find(self, user_id: str, text: str) -> ToolAnswer | None:
        return self._answers.get((user_id, _digest(text))) if self._answers else None


def _digest(text: str) -> bytes:
    return hashlib.sha256(to_utf8(text)).digest()


def describe_image(head: bytes, content_type: str, size_bytes: int) -> str:
    """Return such as `image of 1280 x 720 (PNG, 12 kB)`; `head` is the beginning of its bytes, 24 or more."""
    kind = sayable(content_type.rpartition("/")[2]).upper()
    size = f"{size_bytes:,} bytes" if size_bytes < 1000 else f"{round(size_bytes / 1000):,} kB"
    pixels = ""
    if head.startswith(_PNG_HEAD) and len(head) >= 24:  # its IHDR chunk stands first
        pixels = f" of {int.from_bytes(head[16:20], 'big')} x {int.from_bytes(head[20:24], 'big')}"
    return f"image{pixels} ({kind}, {size})"
