"""Lists of records in YAML, as command line tools and MCP servers print them.

Not a YAML parser: mappings and lists by their indentation, plain and quoted scalars; what a value goes on to say on
further lines is passed over. It reads what was cut off, and takes time linear in the content.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

__all__ = ["YamlRecords", "read_yaml"]

_PARSED = 300_000
_LONGEST_LINE = 2000
_SNIFFED_LINES = 40
_DEEPEST = 40
_LEAST_SHARE = 0.4

_FIELD = re.compile(r"( *)((?:- +)*)(?:([\w.$/@][\w.$/@-]{0,60}|\"[^\"\n]{1,60}\"|'[^'\n]{1,60}') ?:(?: +(.*))?$|(.*))")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None}
_BLOCKS = ("|", ">", "|-", ">-", "|+", ">+")


@dataclass(frozen=True)
class YamlRecords:
    """What was read.

    Attributes:
        value: Dicts, lists and scalars.
        items: Where each item of a list begins, by the `id` of the list.
        is_whole: Whether all of the content was looked at.
    """

    value: Any
    items: dict[int, list[int]]
    is_whole: bool


@dataclass
class _Level:
    indent: int
    node: "dict[str, Any] | list[Any]"
    key: str = ""


def read_yaml(content: str) -> YamlRecords | None:
    """Return the records of a YAML text; None if it holds no list of mappings."""
    if not _is_list_of_records(content[: _LONGEST_LINE * 4]):
        return None
    reader = _YamlReader()
    position = understood = lines = 0
    block: int | None = None
    for line in content[:_PARSED].split("\n"):
        stripped = line[:_LONGEST_LINE].rstrip()
        indent = len(stripped) - len(stripped.lstrip(" "))
        if block is not None and stripped and indent <= block:
            block = None
        if stripped and block is None and stripped.lstrip()[0] != "#" and stripped != "---":
            lines += 1
            match = cast(re.Match[str], _FIELD.match(stripped))
            understood += reader.take(match, position)
            if match[4]:  # whatever stands deeper goes on with this value
                block = indent + len(match[2])
        position += len(line) + 1
    if understood <= lines * _LEAST_SHARE:
        return None
    return YamlRecords(reader.root, reader.items, len(content) <= _PARSED)


def _is_list_of_records(head: str) -> bool:
    """Whether an item with two fields, one below the other, stands near the beginning."""
    lines = head.split("\n")[:_SNIFFED_LINES]
    for line, following in pairwise(lines):
        first, second = _FIELD.match(line[:_LONGEST_LINE]), _FIELD.match(following[:_LONGEST_LINE])
        if first and second and first[2] and first[3] and second[3] and not second[2]:
            return len(second[1]) == len(first[1]) + len(first[2])
        if first and line.strip() and not first[3]:
            return False
    return False


class _YamlReader:
    """Builds the value line by line."""

    def __init__(self) -> None:
        self.root: Any = None
        self.items: dict[int, list[int]] = {}
        self._levels: list[_Level] = []

    def take(self, match: "re.Match[str]", position: int) -> bool:
        """Take a line in; False if it is no field and no item of its own."""
        indent, dashes, key, value = len(match[1]), match[2], match[3], match[4]
        if len(self._levels) > _DEEPEST:
            return False
        for _ in range(dashes.count("-")):
            if not self._open_item(indent, position):
                return False
            indent += 2
        if key is None:
            if dashes:
                self._append(_scalar(match[5]))
            return bool(dashes)
        indent = len(match[1]) + len(dashes)
        return self._set(indent, key.strip("\"'"), value, is_item=bool(dashes), position=position)

    def _open_item(self, indent: int, position: int) -> bool:
        while self._levels and self._levels[-1].indent > indent:
            self._levels.pop()
        if not (self._levels and self._levels[-1].indent == indent and isinstance(self._levels[-1].node, list)):
            node: list[Any] = []
            if not self._attach(node, indent):
                return False
            self._levels.append(_Level(indent, node))
        self.items.setdefault(id(self._levels[-1].node), []).append(position)
        return True

    def _append(self, value: Any) -> None:
        node = self._levels[-1].node
        if isinstance(node, list):
            node.append(value)

    def _attach(self, node: Any, indent: int) -> bool:
        """Put a new container where the last key or the root waits for one."""
        if self.root is None:
            self.root = node
            return True
        if not self._levels:
            return False
        level = self._levels[-1]
        if isinstance(level.node, list):
            level.node.append(node)
            return indent > level.indent
        if level.key and level.node.get(level.key) is None:
            level.node[level.key] = node
            return True
        return False

    def _set(self, indent: int, key: str, value: str | None, is_item: bool, position: int) -> bool:
        while self._levels and (
            self._levels[-1].indent > indent
            or (self._levels[-1].indent == indent and isinstance(self._levels[-1].node, list))
        ):
            self._levels.pop()
        if is_item or not self._levels or self._levels[-1].indent < indent:
            node: dict[str, Any] = {}
            if not self._attach(node, indent):
                return False
            self._levels.append(_Level(indent, node))
        level = self._levels[-1]
        if isinstance(level.node, dict):
            level.node[key] = _scalar(value)
            level.key = key if not value else ""
        return True


def _scalar(text: str | None) -> Any:
    """Return what a scalar means; None if there is none."""
    text = (text or "").strip()
    if not text or text in _BLOCKS:
        return "" if text else None
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text.strip("'\"")
