"""Of which type a tool's result is stored: told by the tool's name and by what it was called with.

A wrong guess costs a filter of a listing, never a content.
"""

import json
import re
from typing import Any, cast

__all__ = ["result_type"]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHELL = frozenset(("bash", "cmd", "command", "commands", "console", "exec", "powershell", "sh", "shell", "terminal"))
_WEB = frozenset(("browse", "browser", "crawl", "http", "https", "scrape", "url", "web", "webpage", "website"))
_PAGE_VERBS, _PAGES = frozenset(("fetch", "get", "open", "read", "visit")), frozenset(("link", "page", "pages", "site"))
_DATABASE = frozenset(("bigquery", "database", "db", "duckdb", "mysql", "oracle", "postgres", "sql", "sqlite"))
_COMMAND_ARGUMENTS = frozenset(("cmd", "command", "commands", "script", "shell_command"))
_URL_ARGUMENTS = frozenset(("href", "link", "uri", "url", "urls"))
_SQL = re.compile(r"\s*(?:select|with|insert|update|delete|explain|describe|pragma)\s+\S", re.IGNORECASE)
_READ_CHARACTERS = 20_000


def result_type(tool: str, arguments: str) -> str:
    """Return `command_output` for shells, `database_result` for rows, `web_content` for pages, else `action_result`.

    Args:
        tool: The tool's name.
        arguments: The call's arguments as JSON.
    """
    words = {word.lower() for word in _WORDS.findall(tool)}
    given = _strings_of(arguments)
    if words & _SHELL or _COMMAND_ARGUMENTS & given.keys():
        return "command_output"
    if words & _DATABASE or any(_SQL.match(value) for value in given.values()):
        return "database_result"
    if words & _WEB or _URL_ARGUMENTS & given.keys() or (words & _PAGE_VERBS and words & _PAGES):
        return "web_content"
    return "action_result"


def _strings_of(arguments: str) -> dict[str, str]:
    """Return the arguments that are texts, by name in lower case."""
    try:
        given: Any = json.loads(arguments) if len(arguments) <= _READ_CHARACTERS else None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return {}
    texts = cast(dict[str, Any], given).items()
    return {name.lower(): value for name, value in texts if isinstance(value, str)}
