"""The tools of the web connector; each acts on the element that a reference names now, or says why it does not."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from autogen_core.tools import BaseTool, FunctionTool
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page

from memory_context.foundation.errors import ConnectorError

from ..protocols import TextObservation
from .capture import first_line, image_of
from .elements import click, select, type_text
from .report import found_lines, shown_url
from .screen import Screen
from .tabs import Tab
from .transfers import Transfers

__all__ = ["PDF_NOTE", "WebActions"]

PDF_NOTE = "A PDF is shown, of which no text is read; {}_download with a link to it keeps it as a file"

_LOAD_SECONDS = 20.0
_ACT_TIMEOUT = 10_000.0  # milliseconds, as Playwright counts
_MOST_WAIT_SECONDS = 30.0
_MOST_SECONDS = 60.0
_DOWNLOAD_SECONDS = 10.0
_BEGIN_SECONDS = 1.0
_WAIT_STEP_SECONDS = 0.25
_PAGE_PIXELS = 600
_MIDDLE = (640, 360)
_AS_DOWNLOAD = """one => one.closest("a[href]")?.setAttribute("download", "")"""
# else a PDF of the same site is shown and not saved
_SCROLLED = """([x, y]) => {
  const places = [scrollX, scrollY];
  for (let one = document.elementFromPoint(x, y); one; one = one.parentElement) {
    if (one.tagName === "IFRAME") return [];
    places.push(one.scrollTop);
  }
  return places;
}"""
_THIS_MACHINE = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:|/|$)")


class WebActions:
    """Tools for one screen, one after the other.

    Args:
        ready: Opens the browser again if it ended.
        refusals: Returns the newest refused requests, and forgets them.
    """

    def __init__(
        self,
        connector_id: str,
        screen: Screen,
        transfers: Transfers,
        ready: Callable[[], Awaitable[None]],
        refusals: Callable[[], list[str]],
    ) -> None:
        self._id = connector_id
        self._screen = screen
        self._transfers = transfers
        self._ready = ready
        self._refusals = refusals

    def tools(self, lock: asyncio.Lock) -> list[BaseTool[Any, Any]]:
        """Return the tools; each holds the lock while it acts."""
        made: tuple[tuple[Callable[..., Any], str, str], ...] = (
            (self._goto, "goto", "Open an address in the shown tab."),
            (self._click, "click", "Click an element by its reference, such as e12."),
            (self._type, "type", "Fill a field with a text, instead of what it holds; submit=true presses Enter."),
            (self._select, "select", "Choose options of a list by their texts."),
            (self._press, "press", "Press a key such as Escape or Control+A, in an element or where the focus is."),
            (self._hover, "hover", "Move the mouse over an element."),
            (self._scroll, "scroll", "Scroll by screens (negative: up), or to an element."),
            (self._back, "back", "Go back in the history of the tab."),
            (self._new_tab, "new_tab", "Open a tab."),
            (self._switch_tab, "switch_tab", "Show another tab."),
            (self._close_tab, "close_tab", "Close a tab."),
            (self._dialog, "dialog", "Answer an open dialog; text is for prompts."),
            (self._wait, "wait", "Wait until the page has a text, or for some seconds."),
            (self._find, "find", "Find elements of the whole page by a text or regular expression (RE2)."),
            (self._screenshot, "screenshot", "Take a picture of the page or of an element."),
            (self._upload, "upload", "Give files of the transfer folder to a file field."),
            (self._download, "download", "Click an element that begins a download, and wait for it."),
        )
        return [
            FunctionTool(self._one_by_one(lock, work), text, name=f"{self._id}_{name}") for work, name, text in made
        ]

    def _one_by_one(self, lock: asyncio.Lock, work: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def bounded(*args: Any, **kwargs: Any) -> Any:
            await self._ready()
            return await work(*args, **kwargs)

        @wraps(work)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            async with lock:
                try:
                    return await asyncio.wait_for(bounded(*args, **kwargs), _MOST_SECONDS)
                except asyncio.TimeoutError as error:
                    raise ConnectorError(f"the browser did not answer within {_MOST_SECONDS:g} s") from error
                except PlaywrightError as error:
                    raise ConnectorError(first_line(error)) from error

        return locked

    async def _goto(self, url: str) -> str:
        address = _checked(url)
        tab = await self._screen.live_tab()
        self._refusals()
        try:
            answer = await self._screen.act(
                tab, tab.page.goto(address, wait_until="commit", timeout=1000 * _LOAD_SECONDS)
            )
        except ConnectorError as error:
            if "ERR_ABORTED" in str(error) or "Download is starting" in str(error):
                kind = "a PDF" if urlsplit(address).path.lower().endswith(".pdf") else "a file"
                return f"That is {kind}; it is being downloaded."
            raise ConnectorError("; ".join(self._refusals()) or f"{shown_url(address)}: {error}") from error
        status = f" (status {answer.status})" if answer is not None and not answer.ok else ""
        opened = f"Opened {shown_url(tab.page.url)}{status}."
        return self._done(tab, "The page that was open, or the new one, asks something." if tab.dialog else opened)

    async def _click(self, ref: str, double: bool = False) -> str:
        self._transfers.begun.clear()
        tab = await self._screen.tab()
        tab.is_aborted = False
        said = await self._on(ref, lambda one, _: click(one, double=double), "Clicked")
        if tab.is_aborted:  # the event of a download comes a moment later
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._transfers.begun.wait(), _BEGIN_SECONDS)
        if self._transfers.begun.is_set():
            said += f" A download began: {self._transfers.records[-1]}."
        return said

    async def _type(self, ref: str, text: str, submit: bool = False) -> str:
        async def fill(element: Locator, page: Page) -> str:
            held = await type_text(element, page, text)
            if submit:
                await page.keyboard.press("Enter")
            return held

        return await self._on(ref, fill, "Filled")

    async def _select(self, ref: str, options: list[str]) -> str:
        return await self._on(ref, lambda one, _: select(one, options), "Chose in")

    async def _press(self, key: str, ref: str = "") -> str:
        if ref:
            return await self._on(
                ref, lambda one, _: one.press(key, timeout=_ACT_TIMEOUT, no_wait_after=True), f"Pressed {key} in"
            )
        tab = await self._screen.ready_tab()
        await self._screen.act(tab, tab.page.keyboard.press(key))
        return self._done(tab, f"Pressed {key}.")

    async def _hover(self, ref: str) -> str:
        return await self._on(ref, lambda one, _: one.hover(timeout=_ACT_TIMEOUT), "The mouse is over")

    async def _scroll(self, screens: float = 1.0, ref: str = "") -> str:
        if ref:
            return await self._on(
                ref, lambda one, _: one.scroll_into_view_if_needed(timeout=_ACT_TIMEOUT), "Scrolled to"
            )
        tab = await self._screen.ready_tab()
        await tab.page.mouse.move(*_MIDDLE)
        before = await self._scrolled(tab)
        await self._screen.act(tab, tab.page.mouse.wheel(0, _PAGE_PIXELS * max(-20.0, min(screens, 20.0))))
        if before and before == await self._scrolled(tab):
            end = "top" if screens < 0 else "end"
            return self._done(tab, f"Nothing scrolled: this is the {end}, or the page does not scroll here.")
        return self._done(tab, "Scrolled.")

    async def _scrolled(self, tab: Tab) -> list[float]:
        """Return how far all that the mouse is over is scrolled; nothing over a frame, which is not asked."""
        with suppress(PlaywrightError, asyncio.TimeoutError):
            return await asyncio.wait_for(tab.page.evaluate(_SCROLLED, [*_MIDDLE]), _ACT_TIMEOUT / 1000)
        return []

    async def _back(self) -> str:
        tab = await self._screen.ready_tab()
        answer = await self._screen.act(tab, tab.page.go_back(wait_until="commit", timeout=1000 * _LOAD_SECONDS))
        return self._done(tab, f"Back at {shown_url(tab.page.url)}." if answer else "There was nothing to go back to.")

    async def _new_tab(self, url: str = "") -> str:
        address = _checked(url) if url else ""
        await self._screen.tabs.new()
        return await self._goto(address) if address else "Opened an empty tab."

    async def _switch_tab(self, tab: int) -> str:
        found = self._tab(tab)
        self._screen.tabs.show(found)
        await found.page.bring_to_front()
        return f"Tab {tab} is shown."

    async def _close_tab(self, tab: int) -> str:
        await self._tab(tab).page.close()
        return f"Closed tab {tab}."

    def _tab(self, number: int) -> Tab:
        if (tab := self._screen.tabs.open.get(number)) is None:
            raise ConnectorError(f"there is no tab {number}; open are {', '.join(map(str, self._screen.tabs.open))}")
        return tab

    async def _dialog(self, accept: bool = True, text: str = "") -> str:
        tab = await self._screen.tab()
        if tab.dialog is None:
            raise ConnectorError("no dialog is open")
        await self._screen.act(tab, tab.answer(accept=accept, text=text))
        return self._done(tab, "Accepted." if accept else "Dismissed.")

    async def _wait(self, text: str = "", seconds: float = 5.0) -> str:
        ends_at = time.monotonic() + min(max(seconds, 0.0), _MOST_WAIT_SECONDS)
        while True:
            page = await self._screen.look()
            if text and any(text.lower() in line.key.lower() for line in page.lines):
                return f"The page has {text[:200]!r}."
            if time.monotonic() >= ends_at:
                break
            await asyncio.sleep(min(_WAIT_STEP_SECONDS, max(ends_at - time.monotonic(), 0.0)))
        if text:
            raise ConnectorError(f"the page has no {text[:200]!r} after {seconds:g} s")
        return "Waited."

    async def _find(self, text: str, is_regex: bool = False) -> str:
        page = await self._screen.look()
        return await asyncio.to_thread(found_lines, page, text, is_regex=is_regex)

    async def _screenshot(self, ref: str = "") -> list[TextObservation]:
        tab = await self._screen.ready_tab()
        subject = (await self._screen.element(ref))[0] if ref else tab.page
        png = await self._screen.act(tab, subject.screenshot(timeout=1000 * _LOAD_SECONDS, scale="css"))
        what = f"{ref} on " if ref else ""
        images = (image_of(png),) if png else ()
        return [TextObservation(self._id, f"Screenshot of {what}{shown_url(tab.page.url)}", "screenshot", "", images)]

    async def _upload(self, ref: str, files: list[str]) -> str:
        payloads = await asyncio.to_thread(self._transfers.uploads, files)

        async def give(element: Locator, page: Page) -> None:
            if await element.evaluate("one => one.type === 'file'"):
                await element.set_input_files(payloads, timeout=_ACT_TIMEOUT)
                return
            async with page.expect_file_chooser(timeout=_ACT_TIMEOUT) as chooser:
                await element.click(timeout=_ACT_TIMEOUT)
            await (await chooser.value).set_files(payloads)

        return await self._on(ref, give, f"Gave {len(files)} files to")

    async def _download(self, ref: str) -> str:
        self._transfers.begun.clear()

        async def fetch(element: Locator, _: Page) -> None:
            await element.evaluate(_AS_DOWNLOAD)
            await click(element)

        await self._on(ref, fetch, "Clicked")
        try:
            await asyncio.wait_for(self._transfers.begun.wait(), _DOWNLOAD_SECONDS)
        except asyncio.TimeoutError:
            raise ConnectorError(f"{ref} was clicked, and no download began") from None
        record = self._transfers.records[-1]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(record.ended.wait(), _LOAD_SECONDS)
        return f"Download: {record}, in {self._transfers.folder.root}"

    async def _on(self, ref: str, work: Callable[[Locator, Page], Awaitable[str | None]], what: str) -> str:
        tab = await self._screen.ready_tab()
        element, label = await self._screen.element(ref)
        try:
            came = await self._screen.act(tab, work(element, tab.page))
        except ConnectorError as error:
            raise ConnectorError(f"{label}: {error}") from error
        return self._done(tab, f"{what} {label}{came or ''}.")

    def _done(self, tab: Tab, text: str) -> str:
        if tab.dialog is not None:
            return f"{text} {tab.dialog_text()}; answer it with {self._id}_dialog."
        return f"{text} {PDF_NOTE.format(self._id)}." if self._screen.shows_pdf else text


def _checked(url: str) -> str:
    """Return an address that may be opened; one without a scheme is https."""
    address = url.strip()
    if "://" not in address and not address.startswith(("about:", "data:", "blob:", "file:", "javascript:", "chrome:")):
        address = f"{'http' if _THIS_MACHINE.match(address) else 'https'}://{address}"
    if address.partition(":")[0].lower() not in ("http", "https", "about", "data"):
        raise ConnectorError(f"{address[:200]!r} cannot be opened; only http and https addresses can")
    return address
