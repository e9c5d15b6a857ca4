"""`show`: one item, whole and exact, or a part of it.

A file or pipe gets the content in UTF-8, byte for byte, lone surrogates as stored ("surrogatepass"); a terminal gets
no control sequence. Reading here is not a use of the item.
"""

import json
import re
import shlex
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import Target, command, find_key
from .console import USAGE_ERROR, Failure, Output, age, harmless, listed, print_fields, say
from .items import item_json

if TYPE_CHECKING:
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.memory.items import MemoryItem
    from memory_context.memory.transforms.transform import MemoryTransform

__all__ = ["show"]

_MAX_EVENTS = 1000
_MAX_MATCHES, _SHOWN_MATCHES = 1000, 20
_FOLD_KEY = re.compile(r"history_\d+-\d+_[0-9a-f]{6}")
_RANGE = re.compile(r"([1-9]\d{0,11})?(:?)([1-9]\d{0,11})?")
_COUNT = re.compile(r"([1-9]\d{0,8})(t?)")
_CALL = re.compile(r"retrieve_memory\(((?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*)\)")
_ARGUMENT = re.compile(r"\b([a-z_]+)=(\"(?:[^\"\\]|\\.)*\"|\w+)")
_OPTIONS = {  # for arguments of the tool in messages of the library
    'transform="filtered"': "--grep",
    'transform="full"': "no option",
    "transform='full'": "no option",
    "start_line": "--lines",
    "start_char": "--chars",
    "first_match": "--matches",
    "json_path": "--json-path",
    "; send ": "; give ",
}


@command()
async def show(
    target: Target,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of a [MemoryRef: key - …], or its beginning.")],
    grep: Annotated[
        str | None, typer.Option("--grep", "-g", metavar="PATTERN", help="Lines with this (RE2; (?i) ignores case).")
    ] = None,
    json_path: Annotated[str | None, typer.Option(metavar="PATH", help="Values at this JSONPath.")] = None,
    matches: Annotated[
        str | None, typer.Option(metavar="A:B", help="Which matches of --grep or --json-path. [default: 1:20]")
    ] = None,
    lines: Annotated[str | None, typer.Option("--lines", "-l", metavar="A:B", help="Lines, from 1.")] = None,
    chars: Annotated[str | None, typer.Option(metavar="A:B", help="Characters, from 1.")] = None,
    head: Annotated[str | None, typer.Option(metavar="N", help="The first N lines; 200t is 200 tokens.")] = None,
    tail: Annotated[str | None, typer.Option(metavar="N", help="The last N lines; 200t is 200 tokens.")] = None,
    summary: Annotated[
        int | None, typer.Option(min=50, max=4000, metavar="TOKENS", help="A summary of so many tokens.")
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="What is known of the item, instead of its content.")] = False,
    history: Annotated[bool, typer.Option("--history", help="What happened to it in its session, instead.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to this file, such as an image.")
    ] = None,
) -> Output:
    """Show an item: all of it exactly, or a part.

    A file or pipe gets the content's bytes and nothing else; in a terminal, control characters show as their codes, and
    an image is described. The command that reads on is printed to stderr.
    """
    part = {"grep": grep, "json-path": json_path, "lines": lines, "chars": chars, "head": head, "tail": tail}
    transform = _transform_of(part | {"summary": summary}, matches)
    memory, item = await _read(target, key, transform)
    if history:
        return await _history(memory, item.key)
    known = item_json(item)
    if meta:
        return Output(lambda: known, lambda: print_fields((name, _in_line(value)) for name, value in known.items()))
    return _content(item, known) if output is None else _written(item, known, output)


# --- the part


def _transform_of(part: dict[str, Any], matches: str | None) -> "MemoryTransform":
    """Return the transform of the one option given.

    Raises:
        Failure: Several options were given, or the value of one is unusable.
    """
    from memory_context.foundation.errors import TransformError
    from memory_context.memory.transforms.transform import MemoryTransform

    given = {name: value for name, value in part.items() if value is not None}
    if len(given) > 1:
        raise Failure(f"give one of {', '.join(f'--{name}' for name in given)}", USAGE_ERROR)
    name = next(iter(given), "")
    value: Any = given.get(name)
    if matches is not None and name not in ("grep", "json-path"):
        raise Failure("--matches goes with --grep or --json-path", USAGE_ERROR)
    try:
        if name in ("grep", "json-path"):
            first, last = _range("matches", matches or f"1:{_SHOWN_MATCHES}")
            first = first or 1
            count = _MAX_MATCHES if last is None else last - first + 1
            what = {"pattern" if name == "grep" else "json_path": value}
            return MemoryTransform.filtered(**what, first_match=first, max_matches=count)
        if name in ("lines", "chars"):
            first, last = _range(name, value)
            return MemoryTransform.of("excerpt", **{f"start_{name[:4]}": first, f"end_{name[:4]}": last})
        if name in ("head", "tail"):
            return MemoryTransform.of("first_n" if name == "head" else "last_n", **_count(name, value))
        return MemoryTransform.summary(value) if name else MemoryTransform.full()
    except TransformError as error:
        raise Failure(_in_options(str(error)), USAGE_ERROR) from error


def _range(option: str, text: str) -> tuple[int | None, int | None]:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1] or 0), int(found[3] or 0)) if found else (0, 0)
    if found and not found[2]:
        last = first
    if not (first or last) or (last and first > last):
        raise Failure(f"--{option} {text} is not a range: write for example 5:20, 5: or :20", USAGE_ERROR)
    return first or None, last or None


def _count(option: str, text: str) -> dict[str, Any]:
    found = _COUNT.fullmatch(text)
    if not found:
        raise Failure(f"--{option} {text} is not a number: write 20 for lines, or 200t for tokens", USAGE_ERROR)
    return {"n": int(found[1]), "unit": "tokens" if found[2] else "lines"}


def _in_options(text: str) -> str:
    """Rewrite tool calls in a text as options of this command."""
    text = _CALL.sub(_command, text)
    return re.sub("|".join(map(re.escape, _OPTIONS)), lambda word: _OPTIONS[word[0]], text)


def _command(match: re.Match[str]) -> str:
    """Convert a call of `retrieve_memory` to a command line."""
    call: dict[str, Any] = {}
    for name, value in _ARGUMENT.findall(match[1]):
        call[name] = json.loads(value) if value[0] == '"' else int(value) if value.isdecimal() else value == "True"
    if "memory_key" not in call:  # a call quoted from elsewhere
        return match[0]
    return shlex.join(["memory-context", "show", call["memory_key"], *_options_of(call)])


def _options_of(call: dict[str, Any]) -> list[str]:
    options: list[str] = []
    if "pattern" in call:
        options = ["--grep", "(?i)" * ("ignore_case" in call) + call["pattern"]]
    elif "json_path" in call:
        options = ["--json-path", call["json_path"]]
    elif "n" in call:
        unit = "t" if call.get("unit") == "tokens" else ""
        return ["--head" if call["transform"] == "first_n" else "--tail", f"{call['n']}{unit}"]
    if first := call.get("first_match"):
        options += ["--matches", f"{first}:{first + call.get('max_matches', _SHOWN_MATCHES) - 1}"]
    for unit in ("line", "char"):
        if f"start_{unit}" in call or f"end_{unit}" in call:
            options += [f"--{unit}s", f"{call.get(f'start_{unit}', '')}:{call.get(f'end_{unit}', '')}"]
    return options


# --- reading


async def _read(target: Target, key: str, transform: "MemoryTransform") -> "tuple[AgentMemory, MemoryItem]":
    """Return the session that stored an item, and the item as it reads it."""
    from memory_context.foundation.errors import TransformError
    from memory_context.memory.agent_memory import AgentMemory

    store, name = target.store, await target.user()
    key = await find_key(store, name, key)
    found = await store.items.fetch_whereabouts(name, key)
    if found is None or not found.is_active:
        if _FOLD_KEY.fullmatch(key):
            raise Failure(f"{key!r} stands for folded messages: memory-context sessions show SESSION --transcript")
        raise await AgentMemory(store, name).not_found(key)
    memory = AgentMemory(store, name, found.agent_id, found.session_id)
    try:
        item = await memory.retrieve(key, transform, reader=None)
    except TransformError as error:
        raise Failure(_in_options(str(error)), USAGE_ERROR) from error
    if item is None:  # forgotten meanwhile
        raise await memory.not_found(key)
    return memory, item


async def _history(memory: "AgentMemory", key: str) -> Output:
    events = await memory.audit(limit=_MAX_EVENTS, newest_first=True)
    if len(events) == _MAX_EVENTS:
        say(f"only the last {_MAX_EVENTS:,} events of its session were searched")
    return listed(
        [event for event in reversed(events) if key in event.keys],
        ("when (UTC)", "age", "what", "by", "detail"),
        lambda event: (event.at, age(event.at), event.kind, event.agent_id or None, event.detail),
        right=("age",),
        cut=("by",),
    )


# --- output


def _content(item: "MemoryItem", known: dict[str, Any]) -> Output:
    text, footer = item.content, ""
    if not item.is_whole:
        text, _, footer = item.content.rpartition("\n")
    footer = _in_options(footer)

    def show() -> None:
        _write(text, item.data)
        for said in filter(None, (footer, item.caveat)):
            say(harmless(said))

    more = {} if item.data is None else {"content_base64": b64encode(item.data).decode()}
    return Output(lambda: {**known, "content": text, "is_whole": item.is_whole, "footer": footer, **more}, show)


def _written(item: "MemoryItem", known: dict[str, Any], file: Path) -> Output:
    from memory_context.foundation.utf8 import to_utf8

    data = to_utf8(item.content) if item.data is None else item.data
    try:
        file.write_bytes(data)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error
    told = {**known, "file": str(file), "bytes": len(data)}
    return Output(lambda: told, lambda: say(f"wrote {len(data):,} bytes to {file}"))


def _write(text: str, data: bytes | None) -> None:
    from memory_context.foundation.utf8 import to_utf8

    if sys.stdout.isatty():
        typer.echo(harmless(text))
        if data is not None:
            say("--output FILE writes its bytes")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(to_utf8(text) if data is None else data)
        sys.stdout.buffer.flush()


def _in_line(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, dict)):
        return json.dumps(value) if value else None
    return value or None
