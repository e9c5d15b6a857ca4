"""Reads a page: its tree of elements with frames and shadow roots, address, title and picture, all of one moment.

The reader is `page.js`, a selector engine of Playwright: it runs in a world of its own in each frame, and leads back to
the very elements that it read.
"""

import asyncio
import io
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from autogen_core import Image
from PIL import Image as Pictures

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs

from ..tree import Node, in_order
from .tabs import Tab

with needs("browser", "the web connector"):
    from playwright.async_api import Error as PlaywrightError
    from playwright.async_api import TimeoutError as PlaywrightTimeout

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame

__all__ = [
    "ENGINE",
    "Capture",
    "answers",
    "capture",
    "differs",
    "engine_script",
    "first_line",
    "image_of",
    "thumbnail",
    "until_quiet",
]

ENGINE = "memory_context"

_MOST_ELEMENTS = 25_000
_MOST_FRAMES = 20
_MOST_FRAME_ELEMENTS = 5000
_DEPTH, _FRAME_DEPTH, _FRAME_LEVELS = 100, 30, 3  # trees are recursed over
_ANSWER_SECONDS = 3.0
_FRAME_SECONDS = 1.0
_PICTURE_SECONDS = 2.0
_QUIET_SECONDS = 0.05
_STILL_LOADING_SECONDS = 1.0  # some pages never end loading
_RESTLESS_SECONDS = 0.8  # some pages never stop changing
_LOOK_AGAIN_SECONDS = 0.025

_Row = tuple[str, str, str, list[str], str, int, int, int, int]
"""Role, name, value, states, key, is in view, is a frame, number of children, number of the element."""
_SIZE = (80, 45)
_VISIBLE_DIFFERENCE = 12  # of 255, as the mean of a cell
_CHANGED_CELLS = 6  # a cursor of text touches two


@dataclass(frozen=True)
class _Target:
    """An element: the frame and document that it is in, and its number in their last capture."""

    frame: "Frame"
    document: str
    index: int

    async def handle(self) -> "ElementHandle | None":
        command = f"{ENGINE}=element {self.document} {self.index}"
        return await asyncio.wait_for(self.frame.query_selector(command), _ANSWER_SECONDS)


@dataclass(frozen=True)
class Capture:
    """A page at one moment.

    Attributes:
        document: Another one after each load.
        changes: Counts the changes of the document.
        targets: The elements by their places in the tree; the root has none.
        in_view: Places of the elements in the visible part.
        is_cut: The page has more elements.
        rows_id: Equal for equal elements of one document; empty for a page with frames.
        picture: PNG; empty if none was asked for.
    """

    url: str
    title: str
    document: str
    changes: int
    tree: Node
    targets: Sequence[_Target | None] = field(repr=False)
    in_view: frozenset[int] = field(repr=False)
    is_cut: bool = False
    rows_id: str = ""
    picture: bytes = field(default=b"", repr=False)

    async def handle(self, place: int) -> "ElementHandle | None":
        """Return the very element that was captured; None if it is no longer there."""
        target = self.targets[place]
        return None if target is None else await target.handle()

    def role(self, place: int) -> str:
        """Return the role of an element."""
        return next(node for at, node in enumerate(in_order(self.tree)) if at == place).role

    async def is_current(self, place: int) -> bool:
        """Return whether nothing has changed in the element's document since."""
        target = self.targets[place]
        if target is None or target.frame.parent_frame is not None:
            return False
        now = await _asked(target.frame, "probe")
        return (now["token"], now["changes"]) == (self.document, self.changes)


@cache
def engine_script() -> str:
    """Return the script of the selector engine."""
    return files("memory_context.connectors.web").joinpath("page.js").read_text(encoding="utf-8").rstrip().rstrip(";")


async def answers(tab: Tab) -> bool:
    """Return whether scripts of a page leave time for anything else."""
    try:
        await _asked(tab.page.main_frame, "probe")
    except PlaywrightError:
        return False
    return True


async def until_quiet(tab: Tab, most_seconds: float, acted_at: float) -> dict[str, Any]:
    """Wait until a page is loaded and has not changed for a moment, bounded; return what is known of it then."""
    began_at = loaded_at = time.monotonic()
    while True:
        told = await _asked(tab.page.main_frame, "probe")
        now = time.monotonic()
        is_over = tab.dialog is not None or now - began_at > most_seconds or now - loaded_at > _RESTLESS_SECONDS
        quiet_seconds = _QUIET_SECONDS if told["isLoaded"] else _STILL_LOADING_SECONDS
        is_loading = tab.is_loading(min(told["quietFor"] / 1000, now - acted_at))
        is_quiet = not is_loading and told["quietFor"] >= 1000 * quiet_seconds
        if is_over or (is_quiet and now - acted_at >= _QUIET_SECONDS):
            return told
        if is_loading or not told["isLoaded"]:
            loaded_at = now
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def capture(
    tab: Tab, last: Capture | None, *, has_picture: bool, quiet_seconds: float, acted_at: float = 0.0
) -> Capture:
    """Return the page once it is quiet; tree, address, title and picture are of one document.

    Args:
        last: The tree of this capture is used again if the page did not change.

    Raises:
        ConnectorError: The page does not answer, or loads again and again.
    """
    ends_at = time.monotonic() + quiet_seconds + _ANSWER_SECONDS
    try:
        while True:
            before = await until_quiet(tab, quiet_seconds, acted_at)
            picture = await _picture(tab) if has_picture else b""
            seen = replace(await _tree(tab.page.main_frame, last), picture=picture)
            if seen.document == before["token"] or not has_picture:
                return seen
            if time.monotonic() > ends_at:  # it keeps changing its address; the tree is of one moment in any case
                return replace(seen, picture=b"")
    except (PlaywrightTimeout, asyncio.TimeoutError) as error:
        raise ConnectorError("the page does not answer: a script runs on, or it loads again and again") from error
    except PlaywrightError as error:
        raise ConnectorError(f"the page cannot be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return what a Playwright error says, without its log."""
    return (str(error) or type(error).__name__).splitlines()[0].partition(": ")[2] or str(error).splitlines()[0]


async def _picture(tab: Tab) -> bytes:
    try:
        return await tab.page.screenshot(caret="initial", scale="css", timeout=1000 * _PICTURE_SECONDS)
    except PlaywrightTimeout:
        return b""  # a page may have nothing to paint


async def _asked(frame: "Frame", command: str, seconds: float | None = None) -> dict[str, Any]:
    told = await frame.get_attribute(f"{ENGINE}={command}", "value", timeout=1000 * (seconds or _ANSWER_SECONDS))
    return json.loads(told or "{}")


@dataclass(frozen=True)
class _Read:
    """What `page.js` told of a document, and of the frames in it by their rows."""

    frame: "Frame"
    told: dict[str, Any]
    inner: "dict[int, _Read]"


async def _tree(frame: "Frame", last: Capture | None) -> Capture:
    told = await _asked(frame, f"capture {_MOST_ELEMENTS} {_DEPTH} {last.rows_id if last is not None else ''}")
    if last is not None and told["rows"] is None:
        return replace(last, url=told["url"], title=told["title"], changes=told["changes"], is_cut=bool(told["isCut"]))
    read = _Read(frame, told, await _frames(frame, told, 1))
    children, targets, in_view = _built(read, 1)
    has_frames = any(row[6] for row in told["rows"])
    return Capture(
        told["url"],
        told["title"],
        told["token"],
        told["changes"],
        Node("document", children=children),
        [None, *targets],
        frozenset(in_view),
        bool(told["isCut"]),
        "" if has_frames else told["id"],
    )


async def _frames(frame: "Frame", told: dict[str, Any], level: int) -> dict[int, _Read]:
    """Return what the frames of a document hold; one that does not answer is left out."""
    if level > _FRAME_LEVELS:
        return {}
    indexes = [index for index, row in enumerate(told["rows"]) if row[6]][:_MOST_FRAMES]
    read = await asyncio.gather(*(_frame(_Target(frame, told["token"], index), level) for index in indexes))
    return {index: one for index, one in zip(indexes, read, strict=True) if one is not None}


async def _frame(owner: _Target, level: int) -> _Read | None:
    try:
        handle = await owner.handle()
        inner = await handle.content_frame() if handle is not None else None
        if inner is None:
            return None
        told = await _asked(inner, f"capture {_MOST_FRAME_ELEMENTS} {_FRAME_DEPTH}", _FRAME_SECONDS)
        return _Read(inner, told, await _frames(inner, told, level + 1))
    except (PlaywrightError, asyncio.TimeoutError):
        return None


def _built(read: _Read, place: int) -> tuple[tuple[Node, ...], list[_Target], list[int]]:
    """Make nodes of rows in document order, the last first; those of frames stand below them."""
    rows: list[_Row] = read.told["rows"]
    targets: list[_Target] = []
    in_view: list[int] = []
    held: dict[int, tuple[Node, ...]] = {}
    for index, row in enumerate(rows):
        if row[5]:
            in_view.append(place + len(targets))
        targets.append(_Target(read.frame, read.told["token"], index))
        if index in read.inner:
            held[index], more, more_in_view = _built(read.inner[index], place + len(targets))
            targets += more
            in_view += more_in_view if row[5] else []
    return _nested(rows, held, read.told["roots"], read.told["token"]), targets, in_view


def _nested(rows: Sequence[_Row], held: dict[int, tuple[Node, ...]], roots: int, document: str) -> tuple[Node, ...]:
    waiting: list[Node] = []
    for index in range(len(rows) - 1, -1, -1):
        role, name, value, states, key, _, _, count, number = rows[index]
        children = tuple(_taken(waiting, count)) or held.get(index, ())
        waiting.append(Node(role, name, value, tuple(states), key, children, hash((document, number))))
    return tuple(_taken(waiting, roots))


def _taken(waiting: list[Node], count: int) -> Iterator[Node]:
    for _ in range(count):
        yield waiting.pop()


def image_of(png: bytes) -> Image:
    """Return a picture for a model."""
    return Image(Pictures.open(io.BytesIO(png)))


def thumbnail(png: bytes) -> bytes:
    """Return the brightness of 80 x 45 cells; each is the mean of about 16 x 16 pixels."""
    with Pictures.open(io.BytesIO(png)) as picture:
        return picture.convert("L").resize(_SIZE, Pictures.Resampling.BOX).tobytes()


def differs(before: bytes, after: bytes) -> bool:
    """Return whether a person would see the difference: enough cells are clearly brighter or darker."""
    if len(before) != len(after):
        return True
    cells = zip(before, after, strict=True)
    return sum(abs(one - other) > _VISIBLE_DIFFERENCE for one, other in cells) >= _CHANGED_CELLS
