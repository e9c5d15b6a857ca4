"""The observed files of a folder: all but those that `.gitignore` names, and `.git`."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs

from .folder import FileStat, Folder

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["MOST_FILES", "IgnoreRules", "observed_files"]

_logger = logging.getLogger("memory_context")

_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_CHARACTERS = 16_000
MOST_FILES = 200_000
_MOST_DEPTH = 100


class IgnoreRules:
    """The rules of all `.gitignore` files below a root; a file's text is compiled once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._specs: dict[str, pathspec.GitIgnoreSpec] = {}

    def put(self, folder: str, text: str | None) -> None:
        """Set the text of a folder's `.gitignore`, None if it has none. Folders end in `/`, the root is empty."""
        if text == self._texts.get(folder):
            return
        self._texts.pop(folder, None)
        self._specs.pop(folder, None)
        if text is not None:
            self._texts[folder] = text
            self._specs[folder] = _spec(folder, text)

    def is_ignored(self, path: str) -> bool:
        """Return whether a file, or a folder ending in `/`, is ignored; the rules nearest to it decide."""
        folder = path.rstrip("/") if self._specs else ""
        while folder:
            folder = folder[: folder.rstrip("/").rfind("/") + 1]
            if folder in self._specs:
                verdict = self._specs[folder].check_file(path[len(folder) :]).include
                if verdict is not None:
                    return verdict
        return False


def _spec(folder: str, text: str) -> pathspec.GitIgnoreSpec:
    """Compile patterns for RE2, in linear time; a malformed line is left out, as git does."""
    is_long = len(text) > _MOST_CHARACTERS
    text = text[:_MOST_CHARACTERS].rpartition("\n")[0] if is_long else text
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    kept: list[str] = []
    for line in lines[:_MOST_PATTERNS]:
        with suppress(Exception):  # of each kind for a malformed line
            pathspec.GitIgnoreSpec.from_lines([line], backend="re2")
            kept.append(line)
    if is_long or len(lines) > _MOST_PATTERNS:
        _logger.warning(
            "%r has more rules than %d, or longer ones; the others are not heeded", f"{folder}.gitignore", len(kept)
        )
    return pathspec.GitIgnoreSpec.from_lines(kept, backend="re2")


def observed_files(folder: Folder, rules: IgnoreRules) -> dict[str, FileStat]:
    """Return the observed files, at most `MOST_FILES`; 100,000 take about a second."""
    return dict(islice(_walk(folder, rules), MOST_FILES))


def _walk(folder: Folder, rules: IgnoreRules) -> Iterator[tuple[str, FileStat]]:
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            entries = folder.entries(here)
        except ConnectorError:  # it went away
            continue
        has_rules = any(name == ".gitignore" for name, _ in entries)
        rules.put(here, folder.text(f"{here}.gitignore") if has_rules else None)
        for name, known in entries:
            path = f"{here}{name}"
            if name == ".git/" or rules.is_ignored(path):
                continue
            if name.endswith("/"):
                waiting += [path] if path.count("/") <= _MOST_DEPTH else []
            elif known is not None:
                yield path, known
