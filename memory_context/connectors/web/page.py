"""One tab: its dialogs, what it loads, and its page as read: Playwright's snapshot, facts beside it, a picture."""

import asyncio
import io
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_core import Image
from PIL import Image as Pictures
from playwright.async_api import Dialog, Frame, Page, Request, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from memory_context.foundation.errors import ConnectorError

from .snapshot import Fact, Line, References, pruned

__all__ = ["Picture", "Shown", "Tab", "first_line"]

_MOST_ELEMENTS = 25_000
_MOST_FRAMES = 20
_ANSWER_SECONDS = 3.0
_SNAPSHOT_SECONDS = 6.0  # 20,000 elements take 4 s
_FRAME_SECONDS = 1.0
_PICTURE_SECONDS = 2.0
_QUIET_SECONDS = 0.05
_STILL_LOADING_SECONDS = 1.0  # some pages never end loading
_RESTLESS_SECONDS = 0.8  # some pages never stop changing
_LOOK_AGAIN_SECONDS = 0.025
_AWAITED = frozenset(["document", "xhr", "fetch", "script", "stylesheet"])
_LONG_NAVIGATION_SECONDS = 8.0
_LONG_SECONDS = 2.0  # a request that takes longer is a stream, or not worth waiting for
_COLUMNS, _ROWS = 80, 45
_VISIBLE_DIFFERENCE = 12  # of 255, as the mean of a cell
_CHANGED_CELLS = 6  # a cursor of text touches two

_PROBE = """() => {
  const key = Symbol.for("memory_context");
  if (!window[key] && document.documentElement) {
    const seen = { at: performance.now() };
    Object.defineProperty(window, key, { value: seen });
    new MutationObserver(() => { seen.at = performance.now() }).observe(document,
      { subtree: true, childList: true, characterData: true, attributes: true });
  }
  const at = window[key]?.at ?? performance.now();
  return [document.readyState === "complete", performance.timeOrigin, performance.now() - at];
}"""
# A snapshot has no password fields, editable texts, closed summaries, labels of hidden boxes or required fields.
_FACTS = """() => {
  const found = [];
  const labels = [...document.querySelectorAll("label")];
  const editors = [...document.querySelectorAll("[contenteditable]")];
  const nth = (selector, all, one) => all.includes(one) ? `${selector} >> nth=${all.indexOf(one)}` : "";
  const tell = (kind, one, role, text, states, name = "", selector = "") => {
    const { x, y, width, height } = one.getBoundingClientRect();
    const box = [x, y, width, height].map(Math.round);
    if (found.length < 3000) found.push([kind, box, role, String(text).slice(0, 500), states, name, selector]);
  };
  const CONTROLS = "a[href], button, input, select, textarea, [tabindex], [onclick], [role], [contenteditable]";
  const field = (one) => {
    const states = [one.required && "required", one.readOnly && "readonly",
      /^(date|time|datetime-local|month|week|color|file)$/.test(one.type) && one.type].filter(Boolean);
    if (one.type === "password") tell("password", one, "", one.value, states);
    else if (states.length) tell("field", one, "", "", states);
    if (/^(checkbox|radio|file)$/.test(one.type) && !(one.offsetWidth && one.offsetHeight)) {
      const now = [one.checked && "checked", one.disabled && "disabled", one.type === "file" && "file"].filter(Boolean);
      const role = one.type === "file" ? "button" : one.type;
      for (const label of one.labels ?? []) {
        tell("role", label, role, label.innerText, now, "", nth("xpath=//label", labels, label));
      }
    }
  };
  const visit = (root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) visit(one.shadowRoot);
      const tag = one.tagName;
      if (tag === "INPUT" || tag === "TEXTAREA" || tag === "SELECT") field(one);
      else if (one.isContentEditable) {
        const name = one.ariaLabel ?? one.getAttribute("aria-placeholder") ?? one.dataset.placeholder ?? "";
        if (!one.parentElement?.isContentEditable) {
          tell("role", one, "textbox", one.innerText, [], name, nth("xpath=//*[@contenteditable]", editors, one));
        }
      } else if (tag === "SUMMARY") {
        tell("role", one, "button", "", [one.parentElement.open ? "expanded" : "collapsed"]);
      }
      else if (tag === "PROGRESS" || tag === "METER") tell("value", one, "", one.value, []);
      else if (one.getAttribute("aria-expanded") === "false") tell("state", one, "", "", ["collapsed"]);
      else if ((one.getAttribute("aria-current") ?? "false") !== "false") tell("state", one, "", "", ["current"]);
      else if (one.hasAttribute("onclick") || one.getAttribute("tabindex") === "0") {
        if (!one.querySelector(CONTROLS) && one.textContent.length < 300) tell("role", one, "button", "", []);
      }
    }
  };
  visit(document);
  return found;
}"""


class Picture:
    """A screenshot as `image`, and the brightness of 80 x 45 cells; each is the mean of about 16 x 16 pixels."""

    def __init__(self, png: bytes) -> None:
        picture = Pictures.open(io.BytesIO(png))
        self.image = Image(picture)
        self._cells = picture.convert("L").resize((_COLUMNS, _ROWS), Pictures.Resampling.BOX).tobytes()

    def differs(self, other: "Picture") -> bool:
        """Return whether a person would see the difference: enough cells are clearly brighter or darker."""
        cells = zip(self._cells, other._cells, strict=True)
        return sum(abs(one - two) > _VISIBLE_DIFFERENCE for one, two in cells) >= _CHANGED_CELLS


@dataclass(frozen=True)
class Shown:
    """A page at one moment, as an agent is shown it.

    Attributes:
        document: Another one after each load.
        tabs: Number, title and address of each.
        is_cut: The page has more elements.
        picture: None if none was asked for.
    """

    url: str = "about:blank"
    title: str = ""
    document: str = ""
    tab: int = 1
    tabs: tuple[tuple[int, str, str], ...] = ()
    lines: tuple[Line, ...] = field(default=(), repr=False)
    is_cut: bool = False
    picture: Picture | None = field(default=None, repr=False)


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

    def _is_loading(self, idle_seconds: float) -> bool:
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

    async def answers(self) -> bool:
        """Return whether scripts of the page leave time for anything else."""
        with suppress(PlaywrightError, asyncio.TimeoutError):
            await self._probe()
            return True
        return False

    async def _probe(self) -> tuple[bool, str, float]:
        """Return whether the page is loaded, its document, and for how many seconds it has not changed."""
        ends_at = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                told = await asyncio.wait_for(self.page.evaluate(_PROBE), _ANSWER_SECONDS)
                return bool(told[0]), str(told[1]), told[2] / 1000
            except PlaywrightError:
                if time.monotonic() > ends_at or self.page.is_closed() or self.is_crashed:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)  # a document gives way to another just now

    async def until_quiet(self, most_seconds: float, acted_at: float) -> str:
        """Wait until the page is loaded and has not changed for a moment, bounded; return its document."""
        began_at = loaded_at = time.monotonic()
        while True:
            is_loaded, document, quiet_for = await self._probe()
            now = time.monotonic()
            is_over = self.dialog is not None or now - began_at > most_seconds or now - loaded_at > _RESTLESS_SECONDS
            is_loading = self._is_loading(min(quiet_for, now - acted_at))
            is_quiet = not is_loading and quiet_for >= (_QUIET_SECONDS if is_loaded else _STILL_LOADING_SECONDS)
            if is_over or (is_quiet and now - acted_at >= _QUIET_SECONDS):
                return document
            if is_loading or not is_loaded:
                loaded_at = now
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def read(
        self, references: References, *, has_picture: bool, quiet_seconds: float, acted_at: float = 0.0
    ) -> Shown:
        """Return the page once it is quiet, its parts of one document; ConnectorError if it does not answer."""
        ends_at = time.monotonic() + quiet_seconds + _ANSWER_SECONDS
        try:
            while True:
                document = await self.until_quiet(quiet_seconds, acted_at)
                picture = await self._picture() if has_picture else None
                raw = await self.page.aria_snapshot(mode="ai", boxes=True, timeout=1000 * _SNAPSHOT_SECONDS)
                told = await asyncio.gather(*(_facts(frame) for frame in self.page.frames[:_MOST_FRAMES]))
                title, url = (await self.page.title())[:1000], self.page.url
                after = (await self._probe())[1]
                if after == document or time.monotonic() > ends_at:
                    break
        except (PlaywrightTimeout, asyncio.TimeoutError) as error:
            raise ConnectorError("the page does not answer: a script runs on, or it loads again and again") from error
        except PlaywrightError as error:
            raise ConnectorError(f"the page cannot be read: {first_line(error)}") from error
        facts = [fact for of_frame in told for fact in of_frame]
        lines, is_cut = await asyncio.to_thread(pruned, raw, facts, references, most_elements=_MOST_ELEMENTS)
        self.title = title
        picture = picture if after == document else None
        return Shown(url[:20_000], title, after, self.number, (), tuple(lines), is_cut, picture)

    async def _picture(self) -> Picture | None:
        with suppress(PlaywrightTimeout):  # a page may have nothing to paint
            png = await self.page.screenshot(
                caret="initial", scale="css", animations="disabled", timeout=1000 * _PICTURE_SECONDS
            )
            return await asyncio.to_thread(Picture, png)
        return None


async def _facts(frame: Frame) -> list[Fact]:
    """Return what the snapshot leaves out of a frame; of one that does not answer, nothing."""
    with suppress(PlaywrightError, asyncio.TimeoutError):
        told: list[Any] = await asyncio.wait_for(frame.evaluate(_FACTS), _FRAME_SECONDS)
        facts = [Fact(kind, tuple(box), *more[:5]) for kind, box, *more in told]
        # selectors are of the main document
        return facts if frame.parent_frame is None else [replace(one, selector="") for one in facts]
    return []


def first_line(error: BaseException) -> str:
    """Return what a Playwright error says, without its log."""
    return (str(error) or type(error).__name__).splitlines()[0].partition(": ")[2] or str(error).splitlines()[0]
