"""A program: parses code from stdin by a tree-sitter grammar and writes its first syntax error, as JSON.

It is run by path, in a limited process, and imports nothing of this package.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import cast

from tree_sitter import Language, Node, Parser

__all__ = ["first_error"]

_SHOWN_CHARACTERS = 60


def first_error(source: bytes, grammar: str, function: str) -> tuple[int, str] | None:
    """Return the line number (from 1) of the first syntax error, and its kind; None if the text has no error.

    Indentation counts, too: the Python grammar itself accepts any.
    """
    module = importlib.import_module(grammar)
    root = Parser(Language(cast(object, getattr(module, function)()))).parse(source).root_node
    errors = [_told(root, source)] if root.has_error else []
    if grammar == "tree_sitter_python":
        errors += _wrong_indents(root, source)
    return min(errors, default=None)


def _told(root: Node, source: bytes) -> tuple[int, str]:
    """Describe the first error below a node that has one."""
    node = root
    while not (node.is_error or node.is_missing):
        node = next(child for child in node.children if child.has_error or child.is_missing)
    line = node.start_point.row + 1
    if node.is_missing:
        return line, f"{node.type} is missing"
    text = source[node.start_byte :].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    return line, f"unexpected {text[:_SHOWN_CHARACTERS]!r}" if text else "unexpected end"


def _wrong_indents(root: Node, source: bytes) -> Iterator[tuple[int, str]]:
    """Yield statements that stand deeper or less deep than the first of their block, and empty blocks."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.named_children
        if node.type not in ("block", "module") or node.has_error:
            continue
        statements = [child for child in node.named_children if not child.is_extra]
        if not statements and node.type == "block":
            yield node.start_point.row + 1, "an indented body is missing"
        indents = [(one, _indent(one, source)) for one in statements]
        wanted = b"" if node.type == "module" else next((indent for _, indent in indents if indent is not None), b"")
        for one, indent in indents:
            if indent is not None and indent != wanted:
                yield one.start_point.row + 1, "its indentation matches no line before"


def _indent(statement: Node, source: bytes) -> bytes | None:
    """Return the blanks before a statement; None if it does not begin its line."""
    begin = source.rfind(b"\n", 0, statement.start_byte) + 1
    before = source[begin : statement.start_byte].lstrip(b"\xef\xbb\xbf\x0c")
    return before if before.strip(b" \t") == b"" else None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(first_error(sys.stdin.buffer.read(), *sys.argv[1:3])))
