"""Chromium as the agent sees it: its tabs, the newest reading of the shown page, references to elements, downloads."""

import asyncio
import os
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from playwright.async_api import Browser as Chromium
from playwright.async_api import (
    BrowserContext,
    Download,
    HttpCredentials,
    Locator,
    Page,
    Playwright,
    async_playwright,
)
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout
from pydantic import BaseModel

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin

from ..folder import Folder, shown
from .page import Shown, Tab, first_line
from .report import VIEWPORT, Blinking
from .request_filter import RequestFilter
from .snapshot import References

__all__ = ["Browser", "Transfers", "WebConnectorConfig", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")
_MAC = ("Chromium", "Google Chrome", "Microsoft Edge", "Brave Browser")
# A Basic challenge opens Chromium's login prompt, which nobody sees or answers; these are refused, so the request ends.
_NO_CREDENTIALS: HttpCredentials = {"username": "", "password": ""}
_MOST_TABS = 20
_MOST_NEWS, _MOST_REFUSALS = 50, 5
_MOST_OFFERED = 10
_MOST_DOWNLOADS = 50
_QUIET_SECONDS, _ELEMENT_QUIET_SECONDS, _SETTLE_SECONDS = 1.5, 0.5, 8.0
_NEXT_DIALOG_SECONDS = 0.2
_ACT_SECONDS, _LOAD_SECONDS = 10.0, 20.0
_NOT_OPEN = "the browser is not open; the session has not begun, or has ended"

_T = TypeVar("_T")


def find_chromium(named: str | None, bundled: str = "") -> str:
    """Return the path of a Chromium: the named one, Playwright's own, or an installed one; or ConnectorError."""
    applications = [f"/Applications/{one}.app/Contents/MacOS/{one}" for one in _MAC]
    asked = [named] if named else [bundled, *_NAMES, *applications]
    if path := next((found for one in asked if one and (found := shutil.which(one))), None):
        return path
    if named:
        raise ConnectorError(f"there is no browser {named!r}; give the path of a Chromium, or None to look for one")
    raise ConnectorError(
        "no Chromium was found: run `playwright install chromium`, or name one with WebConnector(browser=path)"
    )


class WebConnectorConfig(BaseModel):
    """Arguments of `WebConnector`."""

    id: str = "web"
    url: str = "about:blank"
    browser: str | None = None
    allowed_hosts: list[str] | None = None
    allow_private: bool = False
    folder: str | None = None
    has_pictures: bool = True
    sandbox: bool = True


class Browser:
    """One Chromium without a window and with an empty profile.

    Attributes:
        tabs: By number; the last one is shown.
        shown: The newest reading of the shown page.
        blinking: Lines of the shown document that change by themselves.
        fresh_until: Until then `shown` need not be read again, by `time.monotonic`; an action ends it.
        news: Events for the next observations.
    """

    def __init__(self, config: WebConnectorConfig) -> None:
        self.tabs: dict[int, Tab] = {}
        self.shown = Shown()
        self.references = References()
        self.blinking = Blinking()
        self.news: list[str] = []
        self.transfers = Transfers(config.folder, self.tell)
        self._config = config
        self._requests = RequestFilter(config.allowed_hosts, allow_private=config.allow_private)
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._context: BrowserContext | None = None
        self._urls = [config.url]
        self._made = 0
        self.fresh_until = self._acted_at = 0.0
        self._has_acted = True
        self._is_started = False

    # --- its life

    @property
    def is_open(self) -> bool:
        return self._chromium is not None and self._chromium.is_connected()

    async def ensure_open(self) -> None:
        """Start a browser again that ended by itself; ConnectorError before the first start and after `close`."""
        if not self._is_started:
            raise ConnectorError(_NOT_OPEN)
        self.fresh_until = 0.0  # whoever needs the browser may change its page
        if not self.is_open:
            await self.open()
            self.tell("The browser ended unexpectedly and was started again; what was filled in is lost")

    async def open(self) -> None:
        """Start it with its pages; an open one stays. ConnectorError: there is no Chromium, or it does not start."""
        if self.is_open:
            return
        await self._end()
        try:
            self._playwright = await async_playwright().start()
            chromium = self._playwright.chromium
            self._chromium = await chromium.launch(
                executable_path=find_chromium(self._config.browser, chromium.executable_path),
                chromium_sandbox=self._config.sandbox and os.geteuid() != 0,  # root cannot have it
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            await self._requests.attach(self._chromium)
            self._context = await self._chromium.new_context(
                viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]}, http_credentials=_NO_CREDENTIALS
            )
        except BaseException as error:
            await self._end()
            if not isinstance(error, PlaywrightError):
                raise
            reason = f"Chromium does not start: {first_line(error)}"
            if "sandbox" in str(error).lower():
                reason = "Chromium cannot start its sandbox here; allow user namespaces, or pass sandbox=False"
            raise ConnectorError(reason) from error
        self._context.set_default_timeout(1000 * _ACT_SECONDS)
        self._context.set_default_navigation_timeout(1000 * _LOAD_SECONDS)
        self._context.on("page", self._on_page)
        self._is_started = True
        tabs = [(await self.new_tab(), url) for url in reversed(self._urls or ["about:blank"])]
        self.news.clear()
        await asyncio.gather(*(self._visit(tab, url) for tab, url in tabs if url != "about:blank"))

    async def _visit(self, tab: Tab, url: str) -> None:
        try:
            await tab.page.goto(url, wait_until="commit", timeout=1000 * _SETTLE_SECONDS)
        except PlaywrightError as error:
            self.tell(f"{url[:500]} cannot be opened: {first_line(error)}")

    async def close(self) -> None:
        """End it; its pages are opened again with the next start."""
        self._is_started = False
        await self._end()
        self.transfers.close()

    async def _end(self) -> None:
        self._urls = self.urls()
        chromium, playwright, self._chromium, self._playwright = self._chromium, self._playwright, None, None
        self.tabs.clear()
        if chromium is not None:
            with suppress(PlaywrightError):
                await chromium.close()
        if playwright is not None:
            await playwright.stop()

    def urls(self) -> list[str]:
        """Return the addresses of the tabs, that of the shown one first."""
        if self.is_open and self.tabs:
            tabs = reversed(self.tabs.values())
            self._urls = [tab.page.url for tab in tabs if tab.page.url.startswith(("http:", "https:"))]
        return self._urls

    def restore(self, made: int, urls: Sequence[str]) -> None:
        """Go on where a saved session ended: at its pages, with references that it has not given."""
        self._urls = [*urls] or self._urls
        self.references = References(made)

    def tell(self, event: str) -> None:
        """Note an event for the next observations."""
        if len(self.news) < _MOST_NEWS:
            self.news.append(event)

    def refusals(self) -> list[str]:
        """Return the newest refused requests, and forget them; a page can ask for any number."""
        refused = [*self._requests.refused]
        self._requests.refused.clear()
        more = len(refused) - _MOST_REFUSALS
        return refused if more <= 0 else [f"{more} requests", *refused[-_MOST_REFUSALS:]]

    # --- tabs

    @property
    def shows_pdf(self) -> bool:
        return any(tab.is_pdf for tab in [*self.tabs.values()][-1:])

    async def tab(self) -> Tab:
        """Return the shown tab; a new one if all are closed."""
        return next(reversed(self.tabs.values())) if self.tabs else await self.new_tab()

    async def ready_tab(self) -> Tab:
        """Return the shown tab; ConnectorError with what to do if it has a dialog, or crashed."""
        tab = await self.tab()
        if tab.dialog is not None:
            raise ConnectorError(f"{tab.dialog_text()}. Answer it first")
        if tab.is_crashed:
            raise ConnectorError("the page crashed; go to an address again")
        return tab

    async def live_tab(self) -> Tab:
        """Return the shown tab without a dialog; a new one for one that crashed, hangs, or opens dialogs for ever."""
        tab = await self.tab()
        if tab.dialog is not None:
            await tab.answer(accept=False, text="")
            await asyncio.sleep(_NEXT_DIALOG_SECONDS)
        if tab.dialog is None and not tab.is_crashed and await tab.answers():
            return tab
        begin(tab.page.close())  # nobody waits for a page that may not answer
        self._on_close(tab)
        return await self.new_tab()

    async def new_tab(self) -> Tab:
        """Open an empty tab and show it; ConnectorError if too many are open."""
        if self._context is None or not self.is_open:
            raise ConnectorError(_NOT_OPEN)
        if len(self.tabs) < _MOST_TABS:
            page = await self._context.new_page()
            for tab in self.tabs.values():
                if tab.page == page:
                    return tab  # else windows that the page opens meanwhile took the room
        raise ConnectorError(f"{_MOST_TABS} tabs are open; close some first")

    def show(self, tab: Tab) -> None:
        """Make a tab the shown one; when it is closed, the one before it is shown."""
        self.tabs[tab.number] = self.tabs.pop(tab.number)

    def _on_page(self, page: Page) -> None:
        if len(self.tabs) >= _MOST_TABS:
            begin(page.close())
            self.tell(f"A new tab was closed at once: {_MOST_TABS} are open")
            return
        self._made += 1
        tab = self.tabs[self._made] = Tab(self._made, page, self.tell)
        page.on("close", lambda _: self._on_close(tab))
        page.on("download", self.transfers.begin)
        if self._made > 1:
            self.tell(f"Tab {tab.number} opened; it is shown now")

    def _on_close(self, tab: Tab) -> None:
        if self.tabs.pop(tab.number, None) is not None:
            self.tell(f"Tab {tab.number} closed")

    # --- the shown page

    async def look(self, *, has_picture: bool = False, quiet_seconds: float = _QUIET_SECONDS) -> Shown:
        """Return the page as it is now; ConnectorError if it cannot be read, and `shown` stays as it is."""
        had_acted = self._has_acted
        while True:
            tab = await self.ready_tab()
            read = tab.read(
                self.references, has_picture=has_picture, quiet_seconds=quiet_seconds, acted_at=self._acted_at
            )
            seen = await self._unless_dialog(tab, read)
            if seen is None:
                raise ConnectorError(f"{tab.dialog_text()}. Answer it first")
            if tab is await self.tab():  # else a new tab is shown meanwhile
                break
        before, self._has_acted = self.shown, False
        if (before.document, before.tab) != (seen.document, seen.tab):
            self.blinking = Blinking()
        elif not had_acted:
            await asyncio.to_thread(self.blinking.note, before.lines, seen.lines)
        self.urls()  # those of a browser that ends are known
        tabs = tuple((number, one.title, one.page.url) for number, one in sorted(self.tabs.items()))
        self.shown = replace(seen, tabs=tabs)
        return self.shown

    async def element(self, ref: str) -> tuple[Locator, str]:
        """Return the element of a reference, and its label; if it is gone, ConnectorError shows the page as it is."""
        ref = ref.strip().removeprefix("[").removesuffix("]")
        await self.look(quiet_seconds=_ELEMENT_QUIET_SECONDS)
        selector, label = self.references.current.get(ref), self.references.labels.get(ref, "")
        if selector is not None:
            return (await self.ready_tab()).page.locator(selector), f"{label} [{ref}]"
        lines = self.shown.lines
        if label and (same := [line for line in lines if label in line.key][:_MOST_OFFERED]):
            now = "\n".join(str(one).strip() for one in same)
            raise ConnectorError(f"{ref} ({label}) is stale: it is gone or another element now. There are:\n{now}")
        about = f"{ref} ({label}) is stale: it is gone" if label else f"there is no element {ref!r}"
        now = "\n".join(str(one) for one in [one for one in lines if "[e" in one.text][:_MOST_OFFERED])
        raise ConnectorError(f"{about}; use a reference that the page's state shows. It begins with:\n{now}")

    async def act(self, tab: Tab, work: Awaitable[_T]) -> _T | None:
        """Do something to a page and wait until it is quiet, or a dialog opens; ConnectorError if it cannot be done."""
        self._has_acted = True
        try:
            done = await self._unless_dialog(tab, work)
            self._acted_at = time.monotonic()
            if tab.dialog is None and not tab.page.is_closed() and not tab.is_crashed:
                with suppress(asyncio.TimeoutError):
                    await self._unless_dialog(tab, tab.until_quiet(_SETTLE_SECONDS, self._acted_at))
        except PlaywrightError as error:
            if not tab.page.is_closed():  # else that was the effect
                raise ConnectorError(_reason(error)) from error
            return None
        return done

    @staticmethod
    async def _unless_dialog(tab: Tab, work: Awaitable[_T]) -> _T | None:
        """Return the result; None if a dialog opens meanwhile: the work then goes on behind it."""
        task, dialog = begin(work), begin(tab.dialog_opened.wait())
        try:
            await asyncio.wait([task, dialog], return_when=asyncio.FIRST_COMPLETED)
        finally:
            dialog.cancel()
        return task.result() if task.done() else None


def _reason(error: PlaywrightError) -> str:
    """Return why Playwright could not do it, by the newest line of its log that says so."""
    for line in reversed([line.strip(" -") for line in str(error).splitlines()]):
        if "intercepts pointer events" in line:
            return f"it is covered by {line.partition(' intercepts')[0][:300]}; act on that first"
        if re.match("element (is (not|outside)|was detached)", line):
            return f"the {line}"
    if isinstance(error, PlaywrightTimeout):
        return "the page did not answer in time; look at it before you try again"
    return first_line(error)[:500]


@dataclass
class DownloadRecord:
    """A download: where it lands, and how it stands."""

    name: str
    state: str = "loading"
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __str__(self) -> str:
        return f"{shown(self.name)} ({self.state})"


class Transfers:
    """Files that pages give and take: downloads land in one folder, uploads come from it, and nothing else is read.

    Attributes:
        begun: Set when a download begins; readers may clear it.
    """

    def __init__(self, folder: str | None, tell: Callable[[str], None]) -> None:
        self.records: list[DownloadRecord] = []
        self.begun = asyncio.Event()
        self._named = folder
        self._tell = tell
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._folder: Folder | None = None

    @property
    def folder(self) -> Folder:
        """The open folder; it is made if it does not exist."""
        if self._folder is None:
            if self._named is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="memory-context-web-")
            root = self._temporary.name if self._temporary is not None else str(self._named)
            os.makedirs(root, exist_ok=True)
            self._folder = Folder(root)
        return self._folder

    def close(self) -> None:
        """Close the folder; a temporary one is removed."""
        if self._folder is not None:
            self._folder.close()
        if self._temporary is not None:
            self._temporary.cleanup()
        self._folder = self._temporary = None

    def begin(self, download: Download) -> None:
        """Take a download that a page began, under a name that is free."""
        taken = {one.name for one in self.records} | {one for one, _ in self.folder.entries()}
        stem, end = os.path.splitext(os.path.basename(download.suggested_filename).strip(". ")[-150:] or "download")
        names = (f"{stem}{f'-{number}' if number > 1 else ''}{end}" for number in count(1))
        record = DownloadRecord(next(one for one in names if one not in taken))
        self.records = [*self.records, record][-_MOST_DOWNLOADS:]
        begin(self._end(download, record))
        self.begun.set()

    async def _end(self, download: Download, record: DownloadRecord) -> None:
        try:
            await download.save_as(os.path.join(self.folder.root, record.name))
            saved = self.folder.stat(record.name)
            record.state = f"{saved.size if saved else 0:,} bytes"
            self._tell(f"Downloaded {record} to {self.folder.root}")
        except (PlaywrightError, OSError) as error:
            record.state = f"failed: {first_line(error)[:200]}"
            self._tell(f"Download of {record}")
        record.ended.set()

    def uploads(self, names: Sequence[str]) -> list[str]:
        """Return the paths of files of the folder; ConnectorError for what is not one of them."""
        for name in names:
            self.folder.read(name, 1)
        return [os.path.join(self.folder.root, name) for name in names]
