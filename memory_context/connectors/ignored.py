"""The rules of `.gitignore` files, within limits: a hostile one neither hangs a look nor blinds it."""

import logging

from ..extras import needs

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["IgnoreRules"]

_logger = logging.getLogger("memory_context")

_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_CHARACTERS = 16_000


class IgnoreRules:
    """The rules of all `.gitignore` files below a root; a file's text is compiled once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._specs: dict[str, pathspec.GitIgnoreSpec] = {}

    def put(self, folder: str, text: str | None) -> bool:
        """Set the text of a folder's `.gitignore`, None if it has none, and return whether that changed.

        Folders end in `/`, the root is empty.
        """
        if text == self._texts.get(folder):
            return False
        self._texts.pop(folder, None)
        self._specs.pop(folder, None)
        if text is not None:
            self._texts[folder] = text
            self._specs[folder] = _spec(folder, text)
        return True

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
    """Compile patterns for RE2, in linear time; those that are none are left out, as git does."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    room, kept = _MOST_CHARACTERS, list[str]()
    for line in lines[:_MOST_PATTERNS]:
        room -= len(line)
        if room >= 0 and _is_pattern(line):
            kept.append(line)
    if len(lines) > _MOST_PATTERNS or room < 0:
        _logger.warning(
            "%r has more rules than %d, or longer ones; the others are not heeded", f"{folder}.gitignore", len(kept)
        )
    try:
        return pathspec.GitIgnoreSpec.from_lines(kept, backend="re2")
    except Exception as error:
        _logger.warning("%r is not heeded: %s", f"{folder}.gitignore", error)
        return pathspec.GitIgnoreSpec.from_lines([], backend="re2")


def _is_pattern(line: str) -> bool:
    try:
        pathspec.GitIgnoreSpec.from_lines([line], backend="re2")
    except Exception:  # each kind of error means a malformed line, which git ignores, too
        return False
    return True
