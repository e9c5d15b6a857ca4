"""Placeholders as people see them: links that open what is stored, with a description and a size.

Pure text in, text out. A link names a key and nothing else; what it opens is decided by who clicks it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from memory_context import MemoryRef

__all__ = ["LINK", "chips", "excerpt", "fenced", "find_references", "labelled", "linked", "titled"]

LINK = "#memory/"
"""What the address of a link to an item begins with; `public/links.js` opens it in the side panel."""

_PLACEHOLDER = re.compile(r"\[MemoryRef: [A-Za-z0-9][A-Za-z0-9_.-]{0,63} - [^\]\r\n]* - \d+ tokens\]")
_CODE = re.compile(
    r"(^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)|`[^`\n]+`)", re.M | re.S
)
_ARGUMENT = re.compile(r"[A-Za-z_]\w*=(\S.*?)(?=, | [A-Za-z_]\w*=|$)")  # as descriptions of results begin
_PATH = re.compile(r"[\w.@+-]*(?:/[\w.@+-]+)+")
_MARKS = re.compile(r"^#+ |[*`~]|(?<!\w)_+|_+(?!\w)|\]\([^)]*\)?|!?\[")  # of Markdown
_TITLE_CHARACTERS = 72
_LABEL_CHARACTERS = 48
_IN_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def find_references(text: str) -> list[MemoryRef]:
    """Return what the placeholders in a text stand for, each once, in order."""
    found = (MemoryRef.parse(match[0]) for match in _PLACEHOLDER.finditer(text))
    return list({ref.key: ref for ref in found if ref is not None}.values())


def linked(text: str, known: Mapping[str, MemoryRef] | None = None) -> str:
    """Return Markdown in which placeholders, and known keys that stand as code, are links; code blocks stay.

    Args:
        text: Markdown, as a model wrote it.
        known: References by key.
    """
    known = known or {}
    parts: list[str] = []
    end = 0
    for match in _CODE.finditer(text):
        parts += [_linked_placeholders(text[end : match.start()]), _linked_code(match, known)]
        end = match.end()
    return "".join([*parts, _linked_placeholders(text[end:])])


def _linked_placeholders(text: str) -> str:
    def link(match: re.Match[str]) -> str:
        ref = MemoryRef.parse(match[0])
        if ref is None:
            return match[0]
        return _link(ref, titled(ref.description)[0] if _ARGUMENT.match(ref.description) else ref.description)

    return _PLACEHOLDER.sub(link, text)


def _linked_code(match: re.Match[str], known: Mapping[str, MemoryRef]) -> str:
    ref = None if match["fence"] else known.get(match[0].strip("`"))
    return match[0] if ref is None else f"[{match[0]}]({LINK}{ref.key})"


def _link(ref: MemoryRef, words: str) -> str:
    escaped = _IN_MARKDOWN.sub(r"\\\1", words)
    return f"[{escaped} · {ref.token_count:,} tokens]({LINK}{ref.key})"


def titled(description: str) -> tuple[str, str]:
    """Return what a person calls an item, such as its file's name, and the rest of its description."""
    asked = _ARGUMENT.match(description)
    if asked:
        title = _file_name(asked[1])
        rest = description[asked.end() :].strip(" ,")
    else:
        title, rest = description, ""
    return _shortened(_MARKS.sub("", title).strip() or description, _TITLE_CHARACTERS), _MARKS.sub("", rest)


def labelled(thing: str, tool: str) -> str:
    """Return the title of a step: the thing that a tool works on, if any, and the tool in words."""
    words = tool.replace("_", " ")
    thing = _shortened(_file_name(" ".join(thing.split())), _LABEL_CHARACTERS)
    return f"{thing} · {words}" if thing else words.capitalize()


def _file_name(text: str) -> str:
    return text.rpartition("/")[2] if _PATH.fullmatch(text) else text


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return (text[:most].rpartition(" ")[0].rstrip(" ,.;:-") or text[:most]) + "…"


def chips(refs: Iterable[MemoryRef]) -> dict[str, Any]:
    """Return the properties of the element that shows references as chips."""
    return {"refs": [_chip(ref) for ref in refs]}


def _chip(ref: MemoryRef) -> dict[str, Any]:
    title, rest = titled(ref.description)
    return {"key": ref.key, "title": title, "rest": rest, "tokens": ref.token_count}


def excerpt(text: str, most_lines: int = 24, most_characters: int = 2400) -> str:
    """Return the beginning of a text, with a line that says how much follows."""
    lines = text.splitlines()
    shown, taken = [], 0
    for line in lines[:most_lines]:
        taken += len(line) + 1
        if taken > most_characters:
            shown.append(line[: max(0, most_characters - taken + len(line) + 1)] + " …")
            break
        shown.append(line)
    left = len(lines) - len(shown)
    return "\n".join(shown) + (f"\n… {left:,} more line{'s' if left > 1 else ''}" if left > 0 else "")


def fenced(text: str, language: str = "text") -> str:
    """Return a text as a code block that nothing in it can end: what tools return is data, never Markdown."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
