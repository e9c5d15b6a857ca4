"""`show`: one item, whole and exact, or some lines of it.

A file or pipe gets the content in UTF-8, byte for byte, lone surrogates as stored ("surrogatepass"); a terminal gets
no control sequence. Reading here is not a use of the item.
"""

import json
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from memory_context.foundation.patterns import regex

from .command import Target, command, find_key
from .console import USAGE_ERROR, Failure, Output, harmless, print_fields, say
from .items import item_json

if TYPE_CHECKING:
    from memory_context.memory.items import MemoryItem
    from memory_context.memory.transforms.transform import MemoryTransform

__all__ = ["show"]

_MAX_MATCHES = 1000
_FOLD_KEY = regex(r"history_\d+-\d+_[0-9a-f]{6}")
_RANGE = regex(r"([1-9]\d{0,11})?(:?)([1-9]\d{0,11})?")


@command()
async def show(
    target: Target,
    key: Annotated[str, Argument(metavar="KEY", help="The key of a [MemoryRef: key - …], or its beginning.")],
    grep: Annotated[str | None, Option("--grep", "-g", metavar="PATTERN", help="Lines with this (RE2).")] = None,
    lines: Annotated[str | None, Option("--lines", "-l", metavar="A:B", help="Lines, from 1.")] = None,
    meta: Annotated[bool, Option("--meta", help="What is known of the item, instead of its content.")] = False,
) -> Output:
    """Show an item: all of it exactly, or some lines.

    A file or pipe gets the content's bytes and nothing else, such as an image's; in a terminal, control characters show
    as their codes, and an image is described.
    """
    item = await _read(target, key, _transform_of(grep, lines))
    known = item_json(item)
    if meta:
        return Output(known, lambda: print_fields((name, _in_line(value)) for name, value in known.items()))
    text = item.content
    if not item.is_whole:  # the last line names the tool's arguments for the rest
        text = text.rpartition("\n")[0]
    data = {} if item.data is None else {"content_base64": b64encode(item.data).decode()}

    def write() -> None:
        from memory_context.foundation.utf8 import to_utf8

        if sys.stdout.isatty():
            typer.echo(harmless(text))
            if item.data is not None:
                say("memory-context show KEY > FILE writes its bytes")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(to_utf8(text) if item.data is None else item.data)
            sys.stdout.buffer.flush()
        if item.caveat:
            say(harmless(item.caveat))

    return Output({**known, "content": text, "is_whole": item.is_whole, **data}, write)


def _transform_of(grep: str | None, lines: str | None) -> "MemoryTransform":
    from memory_context.foundation.errors import TransformError
    from memory_context.memory.transforms.transform import MemoryTransform

    if grep is not None and lines is not None:
        raise Failure("give one of --grep, --lines", USAGE_ERROR)
    if grep is not None:
        try:
            return MemoryTransform.filtered(pattern=grep, max_matches=_MAX_MATCHES)
        except TransformError as error:
            raise Failure(str(error), USAGE_ERROR) from error
    if lines is None:
        return MemoryTransform.full()
    found = _RANGE.fullmatch(lines)
    first, last = (int(found[1] or 0), int(found[3] or 0)) if found else (0, 0)
    if found and not found[2]:
        last = first
    if not (first or last) or (last and first > last):
        raise Failure(f"--lines {lines} is not a range: write for example 5:20, 5: or :20", USAGE_ERROR)
    return MemoryTransform.of("excerpt", start_line=first or None, end_line=last or None)


async def _read(target: Target, key: str, transform: "MemoryTransform") -> "MemoryItem":
    """Return an item as the session that stored it reads it."""
    from memory_context.foundation.errors import TransformError
    from memory_context.memory.agent_memory import AgentMemory

    store, name = target.store, await target.user()
    key = await find_key(store, name, key)
    found = await store.items.fetch_whereabouts(name, key)
    if found is None or not found.is_active:
        if _FOLD_KEY.fullmatch(key):
            raise Failure(f"{key!r} stands for folded messages: memory-context sessions SESSION --transcript")
        raise await AgentMemory(store, name).not_found(key)
    memory = AgentMemory(store, name, found.agent_id, found.session_id)
    try:
        item = await memory.retrieve(key, transform, reader=None)
    except TransformError as error:
        text = str(error).replace("; send start_line", "; give --lines")
        raise Failure(text, USAGE_ERROR) from error
    if item is None:  # forgotten meanwhile
        raise await memory.not_found(key)
    return item


def _in_line(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, dict)):
        return json.dumps(value) if value else None
    return value or None
