"""The tools of the agent: they list, read and search the source of a package, and return all they find, however large.

Its `MemoryContext` keeps that out of the agent's context.
"""

import re
from pathlib import Path
from typing import Annotated, Any

from autogen_core.tools import BaseTool, FunctionTool

import memory_context

__all__ = ["CODE_ROOT", "code_tools"]

CODE_ROOT = Path(memory_context.__file__).resolve().parent


def code_tools() -> list[BaseTool[Any, Any]]:
    """Return list_files, read_file and search_code, on the source of memory_context."""
    return [
        FunctionTool(list_files, "List the Python files of the package: path, number of lines, what each is for."),
        FunctionTool(read_file, "Return a file of the package, each line with its number."),
        FunctionTool(search_code, "Search the package with a regular expression; returns path:line:text."),
    ]


async def list_files() -> str:
    """Return path, number of lines and purpose of each file."""
    rows = [(name, f"{len(lines)} lines", "".join(lines[:1]).strip('" ')) for name, lines in _files()]
    return "\n".join("\t".join(row) for row in rows)


async def read_file(path: Annotated[str, "The file, relative to the package, such as context.py."]) -> str:
    """Return the lines of a file with their numbers; a bare name finds the file in any folder."""
    wanted = path.removeprefix(f"{CODE_ROOT.name}/")
    for name, lines in _files():
        if wanted in (name, name.rpartition("/")[2]):
            return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
    raise ValueError(f"the package has no file {path!r}; list_files shows what it has")


async def search_code(pattern: Annotated[str, "A regular expression."]) -> str:
    """Return the lines that match."""
    wanted = re.compile(pattern)
    numbered = ((name, number, line) for name, lines in _files() for number, line in enumerate(lines, 1))
    found = [f"{name}:{number}:{line}" for name, number, line in numbered if wanted.search(line)]
    return "\n".join(found) or f"No line matches {pattern!r}."


def _files() -> list[tuple[str, list[str]]]:
    paths = sorted(CODE_ROOT.rglob("*.py"))
    return [(path.relative_to(CODE_ROOT).as_posix(), path.read_text("utf-8").splitlines()) for path in paths]
