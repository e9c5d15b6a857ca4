"""Texts as people see them: placeholders as links that open what is stored, results of tools as blocks of text.

A link names a key and nothing else; `public/links.js` opens it in the side panel, for the person who clicks it.
"""

import re
from collections.abc import Mapping

from memory_context import MemoryRef
from memory_context.foundation.references import shorten

__all__ = ["excerpt", "fenced", "find_references", "link", "linked", "title_of"]

_PLACEHOLDER = re.compile(r"\[MemoryRef: [A-Za-z0-9][A-Za-z0-9_.-]{0,63} - [^\]\r\n]* - \d+ tokens\]")
_CODE = re.compile(
    r"(^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)|`[^`\n]+`)", re.M | re.S
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&])")
_ARGUMENT = re.compile(r"^[A-Za-z_]\w*=")  # descriptions of results begin with the tool's first argument
_TITLE_CHARACTERS = 72
_LINES, _CHARACTERS = 24, 2400


def find_references(text: str) -> list[MemoryRef]:
    """Return the references in a text, each once, in order."""
    found = (MemoryRef.parse(match[0]) for match in _PLACEHOLDER.finditer(text))
    return list({ref.key: ref for ref in found if ref is not None}.values())


def linked(text: str, known: Mapping[str, MemoryRef]) -> str:
    """Return Markdown in which placeholders, and known keys that stand as code, are links; code blocks stay."""
    parts: list[str] = []
    end = 0
    for match in _CODE.finditer(text):
        parts.append(_PLACEHOLDER.sub(_linked_placeholder, text[end : match.start()]))
        key = "" if match["fence"] else match[0].strip("`")
        parts.append(f"[{match[0]}](#memory/{key})" if key in known else match[0])
        end = match.end()
    return "".join([*parts, _PLACEHOLDER.sub(_linked_placeholder, text[end:])])


def _linked_placeholder(match: re.Match[str]) -> str:
    ref = MemoryRef.parse(match[0])
    return link(ref) if ref else match[0]


def link(ref: MemoryRef) -> str:
    """Return a Markdown link that opens an item."""
    escaped = _MARKDOWN.sub(r"\\\1", title_of(ref.description))
    return f"[{escaped} · {ref.token_count:,} tokens](#memory/{ref.key})"


def title_of(description: str) -> str:
    """Return a short name of an item, such as `store/pool.py, Python source`."""
    return shorten(_ARGUMENT.sub("", description), _TITLE_CHARACTERS)


def excerpt(text: str) -> str:
    """Return the beginning of a text, with a line that says how much follows."""
    lines = text.splitlines()
    shown = "\n".join(lines[:_LINES])
    if len(shown) > _CHARACTERS:
        return f"{shown[:_CHARACTERS]} …"
    left = len(lines) - _LINES
    return f"{shown}\n… {left:,} more lines" if left > 0 else shown


def fenced(text: str) -> str:
    """Return a text as a code block that nothing in it can end: results of tools are data, never Markdown."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
