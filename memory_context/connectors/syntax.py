"""Syntax checks of code that is about to be written, by tree-sitter."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath

from ..errors import ConnectorError
from ..utf8 import to_utf8
from .limited_process import run_limited

__all__ = ["SyntaxCheck", "check_syntax"]

_GRAMMARS = {
    ("bash", "language"): (".sh", ".bash"),
    ("c", "language"): (".c",),
    ("go", "language"): (".go",),
    ("java", "language"): (".java",),
    ("javascript", "language"): (".js", ".jsx", ".mjs", ".cjs"),
    ("json", "language"): (".json",),
    ("python", "language"): (".py", ".pyi"),
    ("rust", "language"): (".rs",),
    ("toml", "language"): (".toml",),
    ("typescript", "language_typescript"): (".ts", ".mts", ".cts"),
    ("typescript", "language_tsx"): (".tsx",),
}
_GRAMMAR_OF = {suffix: grammar for grammar, suffixes in _GRAMMARS.items() for suffix in suffixes}
_MOST_BYTES = 1 << 20
_SECONDS = 10.0
_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class SyntaxCheck:
    """The outcome of a check.

    Attributes:
        line: Of the first error, from 1; 0 if none was found.
        text: The error, or why nothing was checked; empty for code without an error.
    """

    line: int = 0
    text: str = ""


async def check_syntax(path: str, text: str) -> SyntaxCheck:
    """Check a file's text by the grammar of its name, in a process of its own; trouble with that is no error in it."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in _GRAMMAR_OF:
        return SyntaxCheck(text=f"no grammar for {suffix or 'a name without a suffix'}")
    language, function = _GRAMMAR_OF[suffix]
    module = f"tree_sitter_{language}"
    if find_spec("tree_sitter") is None or find_spec(module) is None:
        return SyntaxCheck(text="that needs pip install 'memory-context[connectors]'")
    data = to_utf8(text)
    if len(data) > _MOST_BYTES:
        return SyntaxCheck(text=f"it is larger than {_MOST_BYTES:,} bytes")
    try:
        output = await run_limited(
            "syntax_checker", module, function, data=data, seconds=_SECONDS, memory_bytes=_MEMORY_BYTES
        )
    except ConnectorError as error:
        return SyntaxCheck(text=str(error))
    found: tuple[int, str] | None = json.loads(output)
    return SyntaxCheck() if found is None else SyntaxCheck(*found)
