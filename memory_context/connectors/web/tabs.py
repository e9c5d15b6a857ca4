"""Tabs of a browser: which is shown, dialogs that are open in them, what they still load, and their ends."""

import asyncio
import time
from collections.abc import Callable

from playwright.async_api import BrowserContext, Dialog, Download, Page, Request, Response

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin

__all__ = ["Tab", "Tabs"]

_MOST_TABS = 20
_AWAITED = frozenset(["document", "xhr", "fetch", "script", "stylesheet"])
_LONG_NAVIGATION_SECONDS = 8.0
_LONG_SECONDS = 2.0  # a request that takes longer is a stream, or not worth waiting for


class Tab:
    """One page of the browser.

    Attributes:
        number: Counts from 1 and is not used again.
        is_aborted: A page that was asked for did not come, as it is when a file comes instead; readers may reset it.
        is_pdf: The document is a PDF, of which nothing can be read.
        dialog: The one that is open; the page stands still until it is answered.
    """

    def __init__(self, number: int, page: Page, tell: Callable[[str], None]) -> None:
        self.number = number
        self.page = page
        self.title = ""  # as last read
        self.is_crashed = self.is_aborted = self.is_pdf = False
        self.dialog: Dialog | None = None
        self.dialog_opened = asyncio.Event()
        self._tell = tell
        self._requests: dict[Request, float] = {}
        page.on("dialog", self._on_dialog)
        page.on("crash", self._on_crash)
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        page.on("requestfinished", self._on_end)
        page.on("requestfailed", self._on_failure)

    def is_loading(self, idle_seconds: float) -> bool:
        """Return whether requests are under way that are likely to change the page soon.

        Args:
            idle_seconds: Time without an action and a change; some pages ask their server again and again.
        """
        now = time.monotonic()
        most_seconds = _LONG_SECONDS if idle_seconds < _LONG_SECONDS else 0.0
        return any(
            now - began < (_LONG_NAVIGATION_SECONDS if request.is_navigation_request() else most_seconds)
            for request, began in self._requests.items()
        )

    def dialog_text(self) -> str:
        """Return what an open dialog says, and how to answer it; "" if none is open."""
        if self.dialog is None:
            return ""
        message = " ".join(self.dialog.message[:2000].split())[:500]
        return f'Dialog open ({self.dialog.type}): "{message}"'

    async def answer(self, *, accept: bool, text: str) -> None:
        """Answer the open dialog; `text` is for prompts."""
        dialog, self.dialog = self.dialog, None
        self.dialog_opened.clear()
        if dialog is not None:
            await (dialog.accept(text) if accept and text else dialog.accept() if accept else dialog.dismiss())

    def _on_dialog(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.dialog_opened.set()
        self._tell(self.dialog_text())

    def _on_crash(self, _: object) -> None:
        self.is_crashed = True
        self._tell(f"The page of tab {self.number} crashed")

    def _on_request(self, request: Request) -> None:
        if request.resource_type in _AWAITED:
            self._requests[request] = time.monotonic()

    def _on_response(self, response: Response) -> None:
        if response.request.is_navigation_request():
            if response.frame == self.page.main_frame:
                self.is_pdf = response.headers.get("content-type", "").startswith("application/pdf")
            self._on_end(response.request)  # the document itself tells when it is loaded

    def _on_failure(self, request: Request) -> None:
        self.is_aborted |= request.is_navigation_request()
        self._on_end(request)

    def _on_end(self, request: Request) -> None:
        self._requests.pop(request, None)


class Tabs:
    """The open tabs, by number; a new one is shown at once.

    Args:
        tell: Called with each event that an agent should know.
        on_download: Called with each download that begins.
    """

    def __init__(
        self, context: BrowserContext, tell: Callable[[str], None], on_download: Callable[[Download], None]
    ) -> None:
        self.open: dict[int, Tab] = {}
        self._context = context
        self._made = 0
        self._tell = tell
        self._on_download = on_download
        self._order: list[Tab] = []
        context.on("page", self._on_page)

    @property
    def active(self) -> Tab | None:
        """The shown tab; when it is closed, the one that was shown before it."""
        return self._order[-1] if self._order else None

    def show(self, tab: Tab) -> None:
        """Make a tab the shown one."""
        self._order = [*(one for one in self._order if one is not tab), tab]

    async def new(self) -> Tab:
        """Open an empty tab and show it.

        Raises:
            ConnectorError: Too many are open.
        """
        if len(self.open) >= _MOST_TABS:
            raise ConnectorError(f"{_MOST_TABS} tabs are open; close some first")
        page = await self._context.new_page()
        tab = next((tab for tab in self.open.values() if tab.page == page), None)
        if tab is None:  # windows that the page opens meanwhile took the room
            raise ConnectorError(f"{_MOST_TABS} tabs are open, and the page opens more; close some first")
        return tab

    def _on_page(self, page: Page) -> None:
        if len(self.open) >= _MOST_TABS:
            begin(page.close())
            self._tell(f"A new tab was closed at once: {_MOST_TABS} are open")
            return
        self._made += 1
        tab = Tab(self._made, page, self._tell)
        self.open[tab.number] = tab
        page.on("close", lambda _: self._on_close(tab))
        page.on("download", self._on_download)
        self.show(tab)
        if self._made > 1:
            self._tell(f"Tab {tab.number} opened; it is shown now")

    def drop(self, tab: Tab) -> None:
        """Close a tab without waiting for its page, which may not answer."""
        begin(tab.page.close())
        self._on_close(tab)

    def _on_close(self, tab: Tab) -> None:
        if self.open.pop(tab.number, None) is not None:
            self._order.remove(tab)
            self._tell(f"Tab {tab.number} closed")
