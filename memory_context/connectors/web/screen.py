"""What the browser shows: its tabs, the newest capture of the page, and references that lead to its very elements."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin

from ..tree import Node, RefTable, in_order
from ..tree_diff import tree_lines
from .browser import BrowserProcess
from .capture import Capture, PlaywrightError, PlaywrightTimeout, answers, capture, first_line, until_quiet
from .tabs import Tab, Tabs
from .transfers import Transfers

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from playwright.async_api import ElementHandle

__all__ = ["Screen", "Shown"]

_QUIET_SECONDS = 1.5
_SETTLE_SECONDS = 8.0
_REACH_SECONDS = 3.0
_NEXT_DIALOG_SECONDS = 0.2
_MOST_NEWS = 50

_T = TypeVar("_T")


@dataclass(frozen=True)
class Shown:
    """The page as an agent is shown it.

    Attributes:
        page_id: Equal as long as references live on: for one document, and for others of the same address.
        tabs: Number, title and address of each.
        refs: References by the places of their elements.
    """

    url: str = "about:blank"
    title: str = ""
    page_id: str = ""
    tab: int = 1
    tabs: tuple[tuple[int, str, str], ...] = ()
    tree: Node = field(default=Node("document"), repr=False)
    refs: Mapping[int, str] = field(default_factory=dict[int, str], repr=False)
    in_view: frozenset[int] = field(default=frozenset(), repr=False)
    is_cut: bool = False
    picture: bytes = field(default=b"", repr=False)

    def lines(self, *, has_tables: bool = True) -> Iterator[str]:
        """Yield the lines of the tree."""
        return tree_lines(self.tree, self.refs, has_tables=has_tables)


class Screen:
    """One browser, opened when it is needed and opened again if it ended.

    Args:
        start_urls: Pages to open at the start, one in each tab.
    """

    def __init__(self, browser: BrowserProcess, transfers: Transfers, start_urls: Sequence[str]) -> None:
        self.tabs: Tabs | None = None
        self.shown = Shown()
        self.table = RefTable()
        self.news: list[str] = []
        self._browser = browser
        self._transfers = transfers
        self._urls = [*start_urls]
        self._capture: Capture | None = None
        self._acted_at = 0.0
        self._pages = 0

    @property
    def is_open(self) -> bool:
        return self._browser.is_open

    def tell(self, event: str) -> None:
        """Note an event for the next observations."""
        if event and len(self.news) < _MOST_NEWS:
            self.news.append(event)

    def restore(self, shown: Shown | None, made: int, urls: Sequence[str]) -> None:
        """Take over what a saved session was shown."""
        self._urls = [*urls] or self._urls
        if shown is not None:
            self.shown = shown
            self.table.restore(shown.tree, shown.page_id, shown.refs, made)

    async def open(self) -> None:
        """Start the browser with its pages; an open one stays."""
        if self.is_open:
            return
        self.tabs = None
        await self._browser.close()
        context = await self._browser.open()
        self.tabs = Tabs(context, self.tell, self._transfers.begin)
        tabs = [await self.tabs.new() for _ in self._urls or ["about:blank"]]
        self.tabs.show(tabs[0])
        self.news.clear()
        await asyncio.gather(*(self._visit(tab, url) for tab, url in zip(tabs, self._urls, strict=False)))

    async def close(self) -> None:
        """End the browser; its pages are opened again with the next start."""
        self._urls = self.urls()
        self.tabs = None
        await self._browser.close()

    def urls(self) -> list[str]:
        """Return the addresses of the tabs, that of the active one first."""
        if self.tabs is None or not self.is_open:
            return self._urls
        tabs = sorted(self.tabs.open.values(), key=lambda tab: tab is not self._active)
        return [tab.page.url for tab in tabs if tab.page.url.startswith(("http:", "https:"))]

    async def _visit(self, tab: Tab, url: str) -> None:
        if url != "about:blank":
            try:
                await tab.page.goto(url, wait_until="commit", timeout=1000 * _SETTLE_SECONDS)
            except PlaywrightError as error:
                self.tell(f"{url[:500]} cannot be opened: {first_line(error)}")

    @property
    def _active(self) -> Tab | None:
        return self.tabs.active if self.tabs is not None else None

    async def tab(self) -> Tab:
        """Return the active tab; a new one if all are closed."""
        if self.tabs is None or not self.is_open:
            raise ConnectorError("the browser is not open; the session has not begun, or has ended")
        return self.tabs.active or await self.tabs.new()

    async def live_tab(self) -> Tab:
        """Return the active tab without a dialog; a new one for one that crashed, hangs, or opens dialogs for ever."""
        tab = await self.tab()
        if tab.dialog is not None:
            await tab.answer(accept=False, text="")
            await asyncio.sleep(_NEXT_DIALOG_SECONDS)
        is_stuck = tab.dialog is not None or tab.is_crashed or not await answers(tab)
        if is_stuck and self.tabs is not None:
            self.tabs.drop(tab)
            return await self.tabs.new()
        return tab

    async def ready_tab(self) -> Tab:
        """Return the active tab if it can be acted on.

        Raises:
            ConnectorError: A dialog is open, or the page crashed; says what to do.
        """
        tab = await self.tab()
        if tab.dialog is not None:
            raise ConnectorError(f"{tab.dialog_text()}. Answer it first")
        if tab.is_crashed:
            raise ConnectorError("the page crashed; go to an address again")
        return tab

    async def look(self, *, has_picture: bool = False, quiet_seconds: float = _QUIET_SECONDS) -> Shown:
        """Return the page as it is now; what was shown stays as it is if this fails."""
        while True:
            tab = await self.ready_tab()
            last, at = self._capture, self._acted_at
            work = capture(tab, last, has_picture=has_picture, quiet_seconds=quiet_seconds, acted_at=at)
            seen = await self._unless_dialog(tab, work)
            if seen is None:
                raise ConnectorError(f"{tab.dialog_text()}. Answer it first")
            if tab is await self.tab():  # else a new tab is shown meanwhile
                break
        self._urls = self.urls()
        page_id = self._page_id(tab, seen)
        tree = replace(seen.tree, key=page_id)
        refs = await asyncio.to_thread(self.table.update, tree, page_id)
        self._capture = seen
        self.shown = Shown(
            *(seen.url, seen.title, page_id, tab.number, await self._tab_list(tab, seen.title)),
            *(tree, refs, seen.in_view, seen.is_cut, seen.picture),
        )
        return self.shown

    def _page_id(self, tab: Tab, seen: Capture) -> str:
        """References live on in one document, and when an address is loaded again."""
        last, shown = self._capture, self.shown
        is_same_document = last is not None and last.document == seen.document
        is_same_address = shown.tab == tab.number and _address(shown.url) == _address(seen.url)
        if shown.page_id and (is_same_document or is_same_address):
            return shown.page_id
        self._pages = max(self._pages, int(shown.page_id or 0)) + 1
        return str(self._pages)

    async def _tab_list(self, active: Tab, title: str) -> tuple[tuple[int, str, str], ...]:
        tabs = [*self.tabs.open.values()] if self.tabs is not None else []
        titles = await asyncio.gather(*(_title(tab) if tab is not active else _itself(title) for tab in tabs))
        return tuple((tab.number, name, tab.page.url) for tab, name in zip(tabs, titles, strict=True))

    def label(self, ref: str) -> str:
        """Return what an agent knows an element by."""
        place = self.table.place(ref)
        node = next(node for at, node in enumerate(in_order(self.shown.tree)) if at == place)
        return f'{node.role} "{node.name[:60]}" [{ref}]'

    async def element(self, ref: str, *, is_pressed: bool = False) -> "ElementHandle":
        """Return the element of a reference, as of now and in view.

        Args:
            is_pressed: The mouse must reach it, too.

        Raises:
            ConnectorError: It is gone or another element, or something covers it.
        """
        seen, place, handle = await self._found(ref, 0.5)
        try:
            if is_pressed and seen.role(place) != "option":
                await handle.click(trial=True, timeout=1000 * _REACH_SECONDS)
            elif seen.role(place) != "option":
                await handle.scroll_into_view_if_needed(timeout=1000 * _REACH_SECONDS)
        except PlaywrightError as error:
            await self._found(ref, 0.0)
            raise ConnectorError(f"{ref} cannot be reached: {_reason(error)}") from error
        if not await seen.is_current(place):
            _, _, handle = await self._found(ref, 0.0)
        return handle

    async def _found(self, ref: str, quiet_seconds: float) -> "tuple[Capture, int, ElementHandle]":
        await self.look(quiet_seconds=quiet_seconds)
        seen, place = self._capture, self.table.place(ref)
        handle = await seen.handle(place) if seen is not None else None
        if seen is None or handle is None:
            raise ConnectorError(f"{ref} is gone: the page changed just now; look at it again")
        return seen, place, handle

    async def act(self, tab: Tab, work: "Awaitable[_T]") -> _T | None:
        """Do something to a page and wait until it is quiet; None if a dialog opened, which ends the wait.

        Raises:
            ConnectorError: It cannot be done; says why.
        """
        try:
            done = await self._unless_dialog(tab, work)
            self._acted_at = time.monotonic()
            if tab.dialog is None and not tab.page.is_closed() and not tab.is_crashed:
                await self._unless_dialog(tab, _settled(tab, self._acted_at))
        except PlaywrightError as error:
            if not tab.page.is_closed():  # else that was the effect
                raise ConnectorError(_reason(error)) from error
            return None
        return done

    async def _unless_dialog(self, tab: Tab, work: "Awaitable[_T]") -> _T | None:
        """Return the result; None if a dialog opens meanwhile: the work then goes on behind it."""
        task, dialog = begin(work), begin(tab.dialog_opened.wait())
        try:
            await asyncio.wait([task, dialog], return_when=asyncio.FIRST_COMPLETED)
        finally:
            dialog.cancel()
        return task.result() if task.done() else None


async def _settled(tab: Tab, acted_at: float) -> None:
    with contextlib.suppress(PlaywrightError, asyncio.TimeoutError):
        await until_quiet(tab, _SETTLE_SECONDS, acted_at)


async def _title(tab: Tab) -> str:
    try:
        return "" if tab.dialog is not None else (await asyncio.wait_for(tab.page.title(), 0.5))[:1000]
    except (PlaywrightError, asyncio.TimeoutError):
        return ""


async def _itself(title: str) -> str:
    return title


def _address(url: str) -> str:
    return url.partition("#")[0]


def _reason(error: PlaywrightError) -> str:
    text: Any = str(error)
    covers = next((line.strip(" -") for line in text.splitlines() if "intercepts pointer events" in line), "")
    if isinstance(error, PlaywrightTimeout) and not covers:
        return "the page did not answer in time; look at it before you try again"
    return covers[:300] or first_line(error)[:500]
