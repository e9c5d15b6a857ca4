"""`show`: one item, whole and exact, or cut as a transform says.

Promise: what goes to a file or a pipe is the content in UTF-8, byte for byte; a lone surrogate, which UTF-8 has no form
for, is written in its three bytes ("surrogatepass"), as it is stored. What goes to a terminal commands it nothing.
Reading here counts as nobody's use of the item.
"""

import json
import re
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .console import (
    ASKED_WRONGLY,
    Failure,
    JsonOption,
    UrlOption,
    UserOption,
    harmless,
    print_fields,
    print_json,
    print_table,
    run,
    say,
    user_of,
)
from .durations import age
from .files import write_whole
from .items import item_json
from .naming import whole_key

if TYPE_CHECKING:
    from ..memory import AgentMemory, AuditEvent, MemoryItem
    from ..store import MemoryStore
    from ..transforms import MemoryTransform

__all__ = ["show"]

TransformChoice = Literal["full", "excerpt", "summary", "first_n", "last_n", "filtered"]

_CALL = re.compile(r"retrieve_memory\(((?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*)\)")
_ARGUMENT = re.compile(r"\b([a-z_]+)=(\"(?:[^\"\\]|\\.)*\"|\w+)")
_FOLD_KEY = re.compile(r"history_\d+-\d+_[0-9a-f]{6}")
_MOST_EVENTS = 1000
_MEANT_BY: dict[TransformChoice, set[str]] = {
    "filtered": {"pattern", "json_path", "ignore_case", "context_lines", "context_chars", "max_matches", "first_match"},
    "excerpt": {"start_line", "end_line", "start_char", "end_char"},
    "summary": {"limit_tokens"},
    "first_n": {"n", "unit"},
}


def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of a [MemoryRef: key - …], or its beginning.")],
    transform: Annotated[
        TransformChoice | None, typer.Option(help="How to cut. [default: by the other options, else full]")
    ] = None,
    start_line: Annotated[int | None, typer.Option(help="excerpt: the first line, from 1.")] = None,
    end_line: Annotated[int | None, typer.Option(help="excerpt: the last line.")] = None,
    start_char: Annotated[int | None, typer.Option(help="excerpt: the first character, from 1.")] = None,
    end_char: Annotated[int | None, typer.Option(help="excerpt: the last character.")] = None,
    n: Annotated[int | None, typer.Option("--n", "-n", help="first_n, last_n: how many.")] = None,
    unit: Annotated[Literal["lines", "tokens"] | None, typer.Option(help="first_n, last_n: of what.")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", "-p", help="filtered: lines with this (RE2).")] = None,
    json_path: Annotated[str | None, typer.Option(help="filtered: values at this JSONPath.")] = None,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="filtered: whatever the case.")] = False,
    context_lines: Annotated[
        int | None, typer.Option("--context-lines", "--context", "-C", help="filtered: lines around a match. [2]")
    ] = None,
    context_chars: Annotated[int | None, typer.Option(help="filtered: characters, in a long line. [200]")] = None,
    max_matches: Annotated[int | None, typer.Option(help="filtered: how many matches. [20]")] = None,
    first_match: Annotated[int | None, typer.Option(help="filtered: the first match shown, from 1.")] = None,
    limit_tokens: Annotated[int | None, typer.Option(help="summary: how long it may be, 50 to 4000. [300]")] = None,
    meta: Annotated[bool, typer.Option("--meta", help="What is known of the item, instead of its content.")] = False,
    history: Annotated[bool, typer.Option("--history", help="What happened to it in its session, instead.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file, exactly.")] = None,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an item: all of it exactly, or a part.

    Piped or with --output it gives the content's bytes and nothing else; in a terminal, signs that command it show as
    their codes. How to read on is told on stderr.
    """
    params = {
        "start_line": start_line,
        "end_line": end_line,
        "start_char": start_char,
        "end_char": end_char,
        "n": n,
        "unit": unit,
        "pattern": pattern,
        "json_path": json_path,
        "ignore_case": ignore_case or None,
        "context_lines": context_lines,
        "context_chars": context_chars,
        "max_matches": max_matches,
        "first_match": first_match,
        "limit_tokens": limit_tokens,
    }
    item, events = run(lambda store: _read(store, user, key, _transform_of(transform, params), history), url)
    if history:
        _print_events(events, as_json)
    elif meta:
        known = item_json(item)
        print_json(known) if as_json else print_fields((name, _in_line(value)) for name, value in known.items())
    else:
        _give(item, output, as_json)


# --- what is read


async def _read(
    store: "MemoryStore", user: str | None, key: str, transform: "MemoryTransform", with_history: bool
) -> "tuple[MemoryItem, list[AuditEvent]]":
    """Return an item as the agent and session that stored it read it, and what happened to it there."""
    from ..errors import TransformError
    from ..memory import AgentMemory

    name = await user_of(store, user)
    key = await whole_key(store, name, key)
    found = await store.fetch_whereabouts(name, key)
    if found is None or not found.is_active:
        if _FOLD_KEY.fullmatch(key):
            raise Failure(f"{key!r} stands for folded messages: memory-context sessions show SESSION --transcript")
        raise await AgentMemory(store, name).not_found(key)
    memory = AgentMemory(store, name, found.agent_id, found.session_id)
    try:
        item = await memory.retrieve(key, transform, reader=None)
    except TransformError as error:
        raise Failure(_in_options(str(error)), ASKED_WRONGLY) from error
    if item is None:  # it was forgotten meanwhile
        raise await memory.not_found(key)
    return item, await _events_of(memory, key) if with_history else []


async def _events_of(memory: "AgentMemory", key: str) -> "list[AuditEvent]":
    events = await memory.audit(limit=_MOST_EVENTS, newest_first=True)
    if len(events) == _MOST_EVENTS:
        say(f"only the last {_MOST_EVENTS:,} events of its session were looked at")
    return [event for event in reversed(events) if key in event.keys]


def _transform_of(name: TransformChoice | None, params: dict[str, Any]) -> "MemoryTransform":
    """Return how to cut; without a name, what the other options are for.

    Raises:
        Failure: They do not fit together.
    """
    from ..errors import TransformError
    from ..transforms import MemoryTransform

    given = {option for option, value in params.items() if value is not None}
    if name is None and given:
        name = next(one for one, options in _MEANT_BY.items() if given & options)
    try:
        return MemoryTransform.of(name or "full", **params)
    except TransformError as error:
        raise Failure(_in_options(str(error)), ASKED_WRONGLY) from error


# --- what is given


def _give(item: "MemoryItem", output: Path | None, as_json: bool) -> None:
    from ..escaping import to_utf8

    text, footer = item.content, ""
    if not item.is_whole:
        text, _, footer = item.content.rpartition("\n")
    if as_json:
        print_json({**item_json(item), "content": text, "is_whole": item.is_whole, "footer": _in_options(footer)})
        return
    if output is not None:
        content = to_utf8(text)
        write_whole(output, content)
        say(f"{output}: {len(content):,} bytes")
    elif sys.stdout.isatty():
        typer.echo(harmless(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(to_utf8(text))
        sys.stdout.buffer.flush()
    if footer:
        say(harmless(_in_options(footer)))
    if item.caveat:
        say(item.caveat)


def _in_line(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, dict)):
        return json.dumps(value) if value else None
    return value or None


def _print_events(events: "list[AuditEvent]", as_json: bool) -> None:
    if as_json:
        print_json([asdict(event) for event in events])
        return
    rows = [(event.at, age(event.at), event.kind, event.agent_id or None, event.detail) for event in events]
    print_table(("when (UTC)", "age", "what", "by", "detail"), rows, right=("age",), cut=("by",))


def _in_options(text: str) -> str:
    """Return a text that speaks of tool calls in the words of this command."""

    def command(call: re.Match[str]) -> str:
        options = _ARGUMENT.sub(option, call[1]).replace(", ", " ")
        return f"memory-context show {options.replace('--memory-key ', '')}"

    def option(argument: re.Match[str]) -> str:
        name, value = argument[1].replace("_", "-"), argument[2]
        if value in ("True", "False"):
            return f"--{name}" if value == "True" else ""
        return f"--{name} {shlex.quote(json.loads(value)) if value.startswith(chr(34)) else value}"

    said = _ARGUMENT.sub(option, _CALL.sub(command, text))
    return said.replace(", --", " --").replace("; send for example", "; give for example")
