"""What a call asked for: the path, the command, and the programs in it that print something.

A command is taken apart only as far as that needs: pipelines, words, quotes; what stands in front of a program (`sudo`,
`python -m`) is skipped.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from ..compactor import Result

__all__ = ["FILE_PRINTERS", "Call", "call_of"]

FILE_PRINTERS = frozenset({"cat", "head", "tail", "sed", "nl", "bat", "batcat", "less", "more", "awk"})

_PARSED_ARGUMENTS = 200_000
_PARSED_COMMAND = 2000
_COMMAND_KEYS = ("command", "cmd", "commands", "script", "shell_command", "bash_command", "code")
_PATH_KEYS = ("path", "file_path", "filePath", "filepath", "target_file", "filename", "file", "relative_path", "uri")
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit", "read", "write", "edit", "open"}

_WORD = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*'|\|\|?|&&?|;|\n|[^\s|&;"']+)""")
_PIPE, _ENDS = "|", {"||", "&&", "&", ";", "\n"}
_SILENT = {"cd", "export", "source", ".", "set", "unset", "pushd", "popd", "sleep", "mkdir", "rm", "touch", "clear"}
_PREFIXES = {"sudo", "time", "env", "nohup", "stdbuf", "command", "exec", "xargs", "timeout"}
_RUNNERS = {
    ("python", "-m"),
    ("python3", "-m"),
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("bundle", "exec"),
}


@dataclass(frozen=True)
class Call:
    """What a call's arguments say.

    Attributes:
        command: The shell command, or the code; empty if there is none.
        path: The file or folder that was named; empty if there is none.
        pipelines: The pipelines of the command that print something: each its commands, each its words.
        arguments: All of them.
    """

    command: str
    path: str
    pipelines: tuple[tuple[tuple[str, ...], ...], ...]
    arguments: dict[str, Any]

    @property
    def programs(self) -> list[str]:
        """The first program of each pipeline that prints something."""
        return [pipeline[0][0] for pipeline in self.pipelines]

    @property
    def prints_file(self) -> bool:
        """Whether it does nothing but print a file that is no log."""
        words = [words for pipeline in self.pipelines for words in pipeline]
        is_log = any(word.endswith((".log", ".out")) or "/log/" in word for one in words for word in one)
        return len(self.pipelines) == 1 and not is_log and all(one[0] in FILE_PRINTERS for one in words)


@lru_cache(maxsize=16)
def _parsed(arguments: str) -> Call:
    try:
        parsed: Any = json.loads(arguments) if len(arguments) <= _PARSED_ARGUMENTS else {}
    except (ValueError, RecursionError):
        parsed = {}
    named = cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {}
    path = next((value for key in _PATH_KEYS if isinstance(value := named.get(key), str) and value), "")
    command = next((text for key in _COMMAND_KEYS if (text := _as_command(named.get(key)))), "")
    if command in _EDITOR_COMMANDS:
        command = ""
    return Call(command, path, _pipelines(command[:_PARSED_COMMAND]), named)


def call_of(result: Result) -> Call:
    """Return what the arguments of the call say; empty strings if they say nothing."""
    return _parsed(result.arguments)


def _as_command(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, list):
        return ""
    words = [word for word in cast(list[Any], value) if isinstance(word, str)]
    return (words[2] if len(words) > 2 and words[1] in ("-c", "-lc") else " ".join(words)).strip()


def _pipelines(command: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    pipelines: list[list[list[str]]] = [[[]]]
    for word in cast(list[str], _WORD.findall(command)):
        if word == _PIPE:
            pipelines[-1].append([])
        elif word in _ENDS:
            pipelines.append([[]])
        else:
            pipelines[-1][-1].append(word.strip("\"'"))
    stripped = (tuple(words for words in map(_without_prefix, pipeline) if words) for pipeline in pipelines)
    return tuple(pipeline for pipeline in stripped if pipeline and pipeline[0][0] not in _SILENT)


def _without_prefix(words: list[str]) -> tuple[str, ...]:
    while words:
        if "=" in words[0].lstrip("-") and not words[0].startswith(("-", "/")):
            words = words[1:]
        elif words[0] in _PREFIXES:
            words = words[1:]
            while words and (words[0].startswith("-") or words[0].rstrip("smh").isdigit()):
                words = words[1:]
        elif tuple(words[:2]) in _RUNNERS:
            words = words[2:]
        elif words[0] == "npx":
            words = words[1:]
        else:
            return (words[0].rpartition("/")[2] or words[0], *words[1:])
    return ()
