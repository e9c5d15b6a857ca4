"""The browser as the agent sees it: tabs, the newest reading of the page, references to its elements."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeout

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin

from .browser import BrowserProcess
from .capture import Shown, answers, capture, first_line, until_quiet
from .news import Blinking
from .snapshot import PLACED, References
from .tabs import Tab, Tabs
from .transfers import Transfers

__all__ = ["Screen"]

_QUIET_SECONDS = 1.5
_SETTLE_SECONDS = 8.0
_NEXT_DIALOG_SECONDS = 0.2
_MOST_NEWS = 50
_MOST_OFFERED = 10
_STANDS_FOR = {
    "not enabled": "it is disabled",
    "not editable": "it is read-only",
    "not visible": "it is not visible",
    "outside of the viewport": "it is outside of the visible part and cannot be scrolled into it",
    "not stable": "it keeps moving",
    "detached from the DOM": "it was replaced just now",
}
"""Lines of Playwright's log, in plain words."""

_T = TypeVar("_T")


class Screen:
    """One browser, opened when it is needed and opened again if it ended.

    Args:
        start_urls: Pages to open at the start, one in each tab.

    Attributes:
        blinking: Lines of the shown document that change by themselves.
    """

    def __init__(self, browser: BrowserProcess, transfers: Transfers, start_urls: Sequence[str]) -> None:
        self._tabs: Tabs | None = None
        self.shown = Shown()
        self.references = References()
        self.blinking = Blinking()
        self.news: list[str] = []
        self._browser = browser
        self._transfers = transfers
        self._urls = [*start_urls]
        self._acted_at = self._looked_at = 0.0
        self._has_acted = True

    @property
    def is_open(self) -> bool:
        return self._browser.is_open

    @property
    def tabs(self) -> Tabs:
        """The tabs; raises ConnectorError without a browser."""
        if self._tabs is None or not self.is_open:
            raise ConnectorError("the browser is not open; the session has not begun, or has ended")
        return self._tabs

    @property
    def shows_pdf(self) -> bool:
        return self.is_open and self.tabs.active is not None and self.tabs.active.is_pdf

    def tell(self, event: str) -> None:
        """Note an event for the next observations."""
        if event and len(self.news) < _MOST_NEWS:
            self.news.append(event)

    def restore(self, made: int, urls: Sequence[str]) -> None:
        """Go on where a saved session ended: at its pages, with references that it has not given."""
        self._urls = [*urls] or self._urls
        self.references = References(made)

    async def open(self) -> None:
        """Start the browser with its pages; an open one stays."""
        if self.is_open:
            return
        self._tabs = None
        await self._browser.close()
        context = await self._browser.open()
        self._tabs = Tabs(context, self.tell, self._transfers.begin)
        tabs = [await self._tabs.new() for _ in self._urls or ["about:blank"]]
        self._tabs.show(tabs[0])
        self.news.clear()
        await asyncio.gather(*(self._visit(tab, url) for tab, url in zip(tabs, self._urls, strict=False)))

    async def close(self) -> None:
        """End the browser; its pages are opened again with the next start."""
        self._urls = self.urls()
        self._tabs = None
        await self._browser.close()

    def urls(self) -> list[str]:
        """Return the addresses of the tabs, that of the active one first."""
        if self._tabs is None or not self.is_open:
            return self._urls
        active = self.tabs.active
        tabs = sorted(self.tabs.open.values(), key=lambda tab: tab is not active)
        return [tab.page.url for tab in tabs if tab.page.url.startswith(("http:", "https:"))]

    async def _visit(self, tab: Tab, url: str) -> None:
        if url != "about:blank":
            try:
                await tab.page.goto(url, wait_until="commit", timeout=1000 * _SETTLE_SECONDS)
            except PlaywrightError as error:
                self.tell(f"{url[:500]} cannot be opened: {first_line(error)}")

    async def tab(self) -> Tab:
        """Return the active tab; a new one if all are closed."""
        return self.tabs.active or await self.tabs.new()

    async def live_tab(self) -> Tab:
        """Return the active tab without a dialog; a new one for one that crashed, hangs, or opens dialogs for ever."""
        tab = await self.tab()
        if tab.dialog is not None:
            await tab.answer(accept=False, text="")
            await asyncio.sleep(_NEXT_DIALOG_SECONDS)
        if tab.dialog is not None or tab.is_crashed or not await answers(tab):
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
            had_acted, self._has_acted = self._has_acted, False
            at = self._acted_at
            work = capture(tab, self.references, has_picture=has_picture, quiet_seconds=quiet_seconds, acted_at=at)
            try:
                seen = await self._unless_dialog(tab, work)
            except BaseException:
                self._has_acted = True
                raise
            if seen is None:
                raise ConnectorError(f"{tab.dialog_text()}. Answer it first")
            if tab is await self.tab():  # else a new tab is shown meanwhile
                break
        self._urls = self.urls()
        before, now = self.shown, time.monotonic()
        if (before.document, before.tab) != (seen.document, seen.tab):
            self.blinking = Blinking()
        elif not had_acted:
            await asyncio.to_thread(self.blinking.note, before.lines, seen.lines, now - self._looked_at)
        self._looked_at = now
        tab.title = seen.title
        listed = tuple((one.number, one.title, one.page.url) for one in self.tabs.open.values())
        self.shown = replace(seen, tabs=listed)
        return self.shown

    async def element(self, ref: str) -> tuple[Locator, str]:
        """Return the element of a reference, as of now, and what an agent knows it by.

        Raises:
            ConnectorError: It is gone or another element; shows those of its name, or the page.
        """
        ref = ref.strip().removeprefix("[").removesuffix("]")
        await self.look(quiet_seconds=0.5)
        known = self.references.get(ref)
        label = self.references.label(ref)
        if known is None:
            raise ConnectorError(self._stale(ref, label))
        page = (await self.ready_tab()).page
        if "|" in known:
            kind, place = known.split("|")
            return page.locator(PLACED[kind]).nth(int(place)), f"{label} [{ref}]"
        return page.locator(f"aria-ref={known}"), f"{label} [{ref}]"

    def _stale(self, ref: str, label: str) -> str:
        lines = self.shown.lines
        same = [line for line in lines if label and label in line.key][:_MOST_OFFERED]
        if same:
            now = "\n".join(str(one).strip() for one in same)
            return f"{ref} ({label}) is stale: it is gone or another element now. Of its name there are:\n{now}"
        about = f"{ref} ({label}) is stale: it is gone" if label else f"there is no element {ref!r}"
        now = "\n".join(str(one) for one in [one for one in lines if "[e" in one.text][:_MOST_OFFERED])
        return f"{about}; use a reference that the page's state shows. It begins with:\n{now}"

    async def act(self, tab: Tab, work: Awaitable[_T]) -> _T | None:
        """Do something to a page and wait until it is quiet; None if a dialog opened, which ends the wait.

        Raises:
            ConnectorError: It cannot be done; says why.
        """
        self._has_acted = True
        try:
            done = await self._unless_dialog(tab, work)
            self._acted_at = time.monotonic()
            if tab.dialog is None and not tab.page.is_closed() and not tab.is_crashed:
                with contextlib.suppress(asyncio.TimeoutError):
                    await self._unless_dialog(tab, until_quiet(tab, _SETTLE_SECONDS, self._acted_at))
        except PlaywrightError as error:
            if not tab.page.is_closed():  # else that was the effect
                raise ConnectorError(_reason(error)) from error
            return None
        return done

    async def _unless_dialog(self, tab: Tab, work: Awaitable[_T]) -> _T | None:
        """Return the result; None if a dialog opens meanwhile: the work then goes on behind it."""
        task, dialog = begin(work), begin(tab.dialog_opened.wait())
        try:
            await asyncio.wait([task, dialog], return_when=asyncio.FIRST_COMPLETED)
        finally:
            dialog.cancel()
        return task.result() if task.done() else None


def _reason(error: PlaywrightError) -> str:
    """Return why Playwright could not do it, in plain words."""
    log = [line.strip(" -") for line in str(error).splitlines()]
    for line in reversed(log):
        if "intercepts pointer events" in line:
            cover = line.partition(" intercepts")[0]
            return f"it is covered by {cover[:300]}, which intercepts pointer events; act on that first"
        if found := next((plain for said, plain in _STANDS_FOR.items() if said in line), ""):
            return found
    if isinstance(error, PlaywrightTimeout):
        return "the page did not answer in time; look at it before you try again"
    return first_line(error)[:500]
