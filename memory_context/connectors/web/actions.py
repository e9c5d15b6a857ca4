"""The tools of the web connector; each acts on the element that a reference names now, or says why it does not."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from autogen_core.tools import BaseTool, FunctionTool
from playwright.async_api import ElementHandle, Locator, Page
from playwright.async_api import Error as PlaywrightError

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import regex

from ..protocols import TextObservation
from .browser import Browser
from .page import Picture, Tab, first_line
from .report import VIEWPORT, found_lines, shown_url
from .snapshot import quoted

__all__ = ["PDF_NOTE", "WebActions"]

PDF_NOTE = "A PDF is shown, of which no text is read; {}_download with a link to it keeps it as a file"

_LOAD_SECONDS = 20.0
_REACH_SECONDS = 3.0
_MOST_WAIT_SECONDS = 30.0
_MOST_SECONDS = 60.0
_DOWNLOAD_SECONDS = 10.0
_BEGIN_SECONDS = 1.0
_WAIT_STEP_SECONDS = 0.25
_PAGE_PIXELS = 600
_TYPED_CHARACTERS = 200
"""More are inserted at once, but for the last one: pages listen to keys for suggestions, not for long texts."""
_SUGGEST_SECONDS = 0.35
"""Pages wait about so long for the next key before they ask for suggestions."""
_OFFERED = 20
_READ_BACK_CHARACTERS = 200
_THIS_MACHINE = regex(r"(localhost|127\.[0-9.]+|\[::1\])(:|/|$)")

_ABOUT = """one => {
  const field = one.tagName === "LABEL" && one.control ? one.control : one;
  return {
    tag: field.tagName, type: field.type ?? "", isEditable: field.isContentEditable, isChecked: field.checked === true,
    isDisabled: field.matches(":disabled") || field.getAttribute("aria-disabled") === "true",
    isReadOnly: field.readOnly === true || field.getAttribute("aria-readonly") === "true",
    isLabelled: Boolean(one.labels?.length), most: field.maxLength ?? -1,
  };
}"""
# else a PDF of the same site is shown and not saved
_AS_DOWNLOAD = """one => one.closest("a[href]")?.setAttribute("download", "")"""
_SCROLLED = """([x, y]) => {
  const places = [scrollX, scrollY];
  for (let one = document.elementFromPoint(x, y); one; one = one.parentElement) {
    if (one.tagName === "IFRAME") return [];
    places.push(one.scrollTop);
  }
  return places;
}"""
_FORMS = {
    "date": "2026-11-25 (YYYY-MM-DD)",
    "time": "14:30 (HH:MM)",
    "datetime-local": "2026-11-25T14:30 (YYYY-MM-DDTHH:MM)",
    "month": "2026-11 (YYYY-MM)",
    "week": "2026-W48 (YYYY-Www)",
    "color": "#336699",
    "number": "a number such as 12.5",
    "range": "a number within its bounds",
}
"""Types of fields that take one form of text only."""


class WebActions:
    """Tools for one browser, one after the other."""

    def __init__(self, connector_id: str, browser: Browser) -> None:
        self._id = connector_id
        self._browser = browser

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
        @wraps(work)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            async with lock:
                try:
                    await self._browser.ensure_open()
                    return await asyncio.wait_for(work(*args, **kwargs), _MOST_SECONDS)
                except asyncio.TimeoutError as error:
                    raise ConnectorError(f"the browser did not answer within {_MOST_SECONDS:g} s") from error
                except PlaywrightError as error:
                    raise ConnectorError(first_line(error)) from error

        return locked

    # --- pages and tabs

    async def _goto(self, url: str) -> str:
        address = _checked(url)
        tab = await self._browser.live_tab()
        self._browser.refusals()
        going = tab.page.goto(address, wait_until="commit")
        try:
            answer = await self._browser.act(tab, going)
        except ConnectorError as error:
            if "ERR_ABORTED" in str(error) or "Download is starting" in str(error):
                kind = "a PDF" if urlsplit(address).path.lower().endswith(".pdf") else "a file"
                return f"That is {kind}; it is being downloaded."
            raise ConnectorError("; ".join(self._browser.refusals()) or f"{shown_url(address)}: {error}") from error
        status = f" (status {answer.status})" if answer is not None and not answer.ok else ""
        opened = f"Opened {shown_url(tab.page.url)}{status}."
        return self._done(tab, "The page that was open, or the new one, asks something." if tab.dialog else opened)

    async def _back(self) -> str:
        tab = await self._browser.ready_tab()
        answer = await self._browser.act(tab, tab.page.go_back(wait_until="commit"))
        return self._done(tab, f"Back at {shown_url(tab.page.url)}." if answer else "There was nothing to go back to.")

    async def _new_tab(self, url: str = "") -> str:
        address = _checked(url) if url else ""
        await self._browser.new_tab()
        return await self._goto(address) if address else "Opened an empty tab."

    async def _switch_tab(self, tab: int) -> str:
        found = self._tab(tab)
        self._browser.show(found)
        await found.page.bring_to_front()
        return f"Tab {tab} is shown."

    async def _close_tab(self, tab: int) -> str:
        await self._tab(tab).page.close()
        return f"Closed tab {tab}."

    def _tab(self, number: int) -> Tab:
        if (tab := self._browser.tabs.get(number)) is None:
            raise ConnectorError(f"there is no tab {number}; open are {', '.join(map(str, self._browser.tabs))}")
        return tab

    async def _dialog(self, accept: bool = True, text: str = "") -> str:
        tab = await self._browser.tab()
        if tab.dialog is None:
            raise ConnectorError("no dialog is open")
        await self._browser.act(tab, tab.answer(accept=accept, text=text))
        return self._done(tab, "Accepted." if accept else "Dismissed.")

    # --- elements

    async def _click(self, ref: str, double: bool = False) -> str:
        transfers, tab = self._browser.transfers, await self._browser.tab()
        transfers.begun.clear()
        tab.is_aborted = False
        said = await self._on(ref, lambda one, _: _click(one, double=double), "Clicked")
        if tab.is_aborted:  # the event of a download comes a moment later
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(transfers.begun.wait(), _BEGIN_SECONDS)
        return f"{said} A download began: {transfers.records[-1]}." if transfers.begun.is_set() else said

    async def _type(self, ref: str, text: str, submit: bool = False) -> str:
        async def fill(element: Locator, page: Page) -> str:
            held = await _type_text(element, page, text)
            if submit:
                await page.keyboard.press("Enter")
            return held

        return await self._on(ref, fill, "Filled")

    async def _select(self, ref: str, options: list[str]) -> str:
        return await self._on(ref, lambda one, _: _select(one, options), "Chose in")

    async def _press(self, key: str, ref: str = "") -> str:
        if ref:
            return await self._on(ref, lambda one, _: one.press(key, no_wait_after=True), f"Pressed {key} in")
        tab = await self._browser.ready_tab()
        await self._browser.act(tab, tab.page.keyboard.press(key))
        return self._done(tab, f"Pressed {key}.")

    async def _hover(self, ref: str) -> str:
        return await self._on(ref, lambda one, _: one.hover(), "The mouse is over")

    async def _scroll(self, screens: float = 1.0, ref: str = "") -> str:
        if ref:
            return await self._on(ref, lambda one, _: one.scroll_into_view_if_needed(), "Scrolled to")
        tab = await self._browser.ready_tab()
        middle = VIEWPORT[0] // 2, VIEWPORT[1] // 2
        await tab.page.mouse.move(*middle)
        before = await tab.page.evaluate(_SCROLLED, [*middle])
        await self._browser.act(tab, tab.page.mouse.wheel(0, _PAGE_PIXELS * max(-20.0, min(screens, 20.0))))
        # nothing is known over a frame, whose places cannot be read
        if before and before == await tab.page.evaluate(_SCROLLED, [*middle]):
            end = "top" if screens < 0 else "end"
            return self._done(tab, f"Nothing scrolled: this is the {end}, or the page does not scroll here.")
        return self._done(tab, "Scrolled.")

    async def _on(self, ref: str, work: Callable[[Locator, Page], Awaitable[str | None]], what: str) -> str:
        tab = await self._browser.ready_tab()
        element, label = await self._browser.element(ref)
        try:
            came = await self._browser.act(tab, work(element, tab.page))
        except ConnectorError as error:
            raise ConnectorError(f"{label}: {error}") from error
        return self._done(tab, f"{what} {label}{came or ''}.")

    def _done(self, tab: Tab, text: str) -> str:
        if tab.dialog is not None:
            return f"{text} {tab.dialog_text()}; answer it with {self._id}_dialog."
        return f"{text} {PDF_NOTE.format(self._id)}." if self._browser.shows_pdf else text

    # --- reading

    async def _wait(self, text: str = "", seconds: float = 5.0) -> str:
        ends_at = time.monotonic() + min(max(seconds, 0.0), _MOST_WAIT_SECONDS)
        while True:
            page = await self._browser.look()
            if text and any(text.lower() in line.key.lower() for line in page.lines):
                return f"The page has {text[:200]!r}."
            if time.monotonic() >= ends_at:
                break
            await asyncio.sleep(min(_WAIT_STEP_SECONDS, max(ends_at - time.monotonic(), 0.0)))
        if text:
            raise ConnectorError(f"the page has no {text[:200]!r} after {seconds:g} s")
        return "Waited."

    async def _find(self, text: str, is_regex: bool = False) -> str:
        page = await self._browser.look()
        return await asyncio.to_thread(found_lines, page, text, is_regex=is_regex)

    async def _screenshot(self, ref: str = "") -> list[TextObservation]:
        tab = await self._browser.ready_tab()
        subject = (await self._browser.element(ref))[0] if ref else tab.page
        png = await self._browser.act(tab, subject.screenshot(scale="css"))
        text = f"Screenshot of {f'{ref} on ' if ref else ''}{shown_url(tab.page.url)}"
        return [TextObservation(self._id, text, "screenshot", "", (Picture(png).image,) if png else ())]

    # --- files

    async def _upload(self, ref: str, files: list[str]) -> str:
        paths = await asyncio.to_thread(self._browser.transfers.uploads, files)

        async def give(element: Locator, page: Page) -> None:
            if await element.evaluate("one => one.type === 'file'"):
                await element.set_input_files(paths)
                return
            async with page.expect_file_chooser() as chooser:
                await element.click()
            await (await chooser.value).set_files(paths)

        return await self._on(ref, give, f"Gave {len(files)} files to")

    async def _download(self, ref: str) -> str:
        transfers = self._browser.transfers
        transfers.begun.clear()

        async def fetch(element: Locator, _: Page) -> None:
            await element.evaluate(_AS_DOWNLOAD)
            await _click(element)

        await self._on(ref, fetch, "Clicked")
        try:
            await asyncio.wait_for(transfers.begun.wait(), _DOWNLOAD_SECONDS)
        except asyncio.TimeoutError:
            raise ConnectorError(f"{ref} was clicked, and no download began") from None
        record = transfers.records[-1]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(record.ended.wait(), _LOAD_SECONDS)
        return f"Download: {record}, in {transfers.folder.root}"


def _checked(url: str) -> str:
    """Return an address that may be opened; one without a scheme is https."""
    address = url.strip()
    if "://" not in address and not address.startswith(("about:", "data:", "blob:", "file:", "javascript:", "chrome:")):
        address = f"{'http' if _THIS_MACHINE.match(address) else 'https'}://{address}"
    if address.partition(":")[0].lower() not in ("http", "https", "about", "data"):
        raise ConnectorError(f"{address[:200]!r} cannot be opened; only http and https addresses can")
    return address


async def _about(element: Locator) -> dict[str, Any]:
    return await element.evaluate(_ABOUT, timeout=1000 * _REACH_SECONDS)


async def _click(element: Locator, *, double: bool = False) -> str:
    """Click, through its label where that covers a box; return how a box stands then."""
    about = await _about(element)
    if about["isDisabled"]:
        raise ConnectorError("it is disabled; something else on the page comes first")
    is_box = about["tag"] == "INPUT" and about["type"] in ("checkbox", "radio")
    place: Locator | ElementHandle | None = element
    try:
        await element.click(trial=True, timeout=1000 * _REACH_SECONDS)
    except PlaywrightError:
        is_labelled = is_box and about["isLabelled"]
        place = (await element.evaluate_handle("one => one.labels[0]")).as_element() if is_labelled else None
        if place is None:
            raise
    await place.click(no_wait_after=True, click_count=2 if double else 1)
    if is_box:
        with suppress(PlaywrightError):  # a page may replace it
            is_checked = (await _about(element))["isChecked"]
            if is_checked == about["isChecked"] and not double:
                return "; it was chosen already" if is_checked else "; the page did not check it"
            return "; it is checked now" if is_checked else "; it is not checked any more"
    return ""


async def _type_text(element: Locator, page: Page, text: str) -> str:
    """Fill a field instead of what it holds, key by key where pages listen to keys; return what it holds then."""
    about = await _about(element)
    if about["tag"] not in ("INPUT", "TEXTAREA", "SELECT") and not about["isEditable"]:
        element = element.locator("input, textarea, [contenteditable]").first
        if not await element.count():
            raise ConnectorError("it takes no text: click it, then type into the field that opens")
        about = await _about(element)
    if about["isDisabled"] or about["isReadOnly"]:
        raise ConnectorError(f"it is {'disabled' if about['isDisabled'] else 'read-only'}")
    kind = about["type"]
    if about["tag"] == "SELECT" or kind in ("checkbox", "radio", "file", "button", "submit"):
        raise ConnectorError("it takes no text; use the tool to select, click or upload")
    if about["tag"] == "INPUT" and kind in _FORMS:
        with suppress(PlaywrightError):  # of another form: the field stays empty
            await element.fill(text.strip())
        if text.strip() and not await element.input_value(timeout=1000 * _REACH_SECONDS):
            raise ConnectorError(f"it takes {_FORMS[kind]}, not {text[:80]!r}; it is empty now")
    else:
        await element.fill("")
        await element.focus(timeout=1000 * _REACH_SECONDS)
        for number, line in enumerate((text if about["tag"] != "INPUT" else " ".join(text.splitlines())).split("\n")):
            if number:
                await page.keyboard.press("Shift+Enter")  # Enter alone sends in many composers
            at_once = len(line) - 1 if len(line) > _TYPED_CHARACTERS else 0
            if at_once:
                await page.keyboard.insert_text(line[:at_once])
            await page.keyboard.type(line[at_once:])
        await asyncio.sleep(_SUGGEST_SECONDS)
    return await _read_back(element, about, text)


async def _read_back(element: Locator, about: dict[str, Any], text: str) -> str:
    try:
        read = element.inner_text if about["isEditable"] else element.input_value
        held = await read(timeout=1000 * _REACH_SECONDS)
    except PlaywrightError:
        return "; the page replaced the field"
    if about["type"] == "password":
        return f"; it holds {len(held)} characters"
    shown = f'; it holds "{quoted(held)[:_READ_BACK_CHARACTERS]}"'
    if _plain(held) == _plain(text):
        return shown
    most = f", as it takes at most {about['most']} characters" if 0 <= about["most"] <= len(held) else ""
    return f"{shown} and not what was typed{most}"


async def _select(element: Locator, wanted: Sequence[str]) -> str:
    """Choose options by their texts as they are shown, or by their values; return the chosen ones."""
    about = await _about(element)
    if about["isDisabled"]:
        raise ConnectorError("it is disabled")
    if about["tag"] != "SELECT":
        raise ConnectorError("it is not a list of the browser's own: click it, then click the option that it shows")
    options: list[tuple[str, str, bool]] = await element.evaluate(
        "one => [...one.options].map(each => [each.label, each.value, each.disabled])"
    )
    chosen: list[int] = []
    for one in wanted:
        asked = _plain(one).casefold()
        found = [at for at, (label, _, _) in enumerate(options) if _plain(label).casefold() == asked]
        found = found or [at for at, (_, value, _) in enumerate(options) if value == one]
        if not found:
            offered = ", ".join(f'"{quoted(label)}"' for label, _, _ in options[:_OFFERED])
            more = f" and {len(options) - _OFFERED} more" if len(options) > _OFFERED else ""
            raise ConnectorError(f"there is no option {one[:100]!r}; there are {offered}{more}")
        if not (enabled := [at for at in found if not options[at][2]]):
            raise ConnectorError(f"the option {one[:100]!r} is disabled")
        chosen.append(enabled[0])
    await element.select_option(index=chosen)
    return ": " + ", ".join(f'"{quoted(options[at][0])}"' for at in chosen)


def _plain(text: str) -> str:
    return re.sub(r"[\s\u200b\ufeff]+", " ", text).strip()
