"""Chromium as a process of this program: found, started, and ended with the program, however it ends."""

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs

from .capture import first_line
from .request_filter import RequestFilter

with needs("browser", "the web connector"):
    from playwright.async_api import Error as PlaywrightError
    from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, HttpCredentials, Playwright

__all__ = ["VIEWPORT", "BrowserProcess", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")
_MAC = ("Chromium", "Google Chrome", "Microsoft Edge", "Brave Browser")
VIEWPORT = 1280, 720
"""Width and height of the visible part, in pixels."""
_KILL_AT_END = """
import os, signal, sys
while os.read(0, 1):
    pass
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""
# A Basic challenge opens Chromium's login prompt, which nobody sees or answers; these are refused, so the request ends.
_NO_CREDENTIALS: "HttpCredentials" = {"username": "", "password": ""}
# A closed shadow root stays closed to the page, and open to the reader, whose world has objects of its own.
_OPEN_SHADOWS = """(() => {
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function attachShadow(options) {
    if (options?.mode !== "closed") return attach.call(this, options);
    const root = attach.call(this, { ...options, mode: "open" });
    Object.defineProperty(this, "shadowRoot", { value: null });
    Object.defineProperty(root, "mode", { value: "closed" });
    return root;
  };
})()"""


def find_chromium(named: str | None, bundled: str = "") -> str:
    """Return the path of a Chromium: the named one, Playwright's own, or one that is installed.

    Raises:
        ConnectorError: There is none; says what to do.
    """
    if named:
        path = shutil.which(named)
        if path is None:
            raise ConnectorError(f"there is no browser {named!r}; give the path of a Chromium, or None to look for one")
        return path
    applications = [f"/Applications/{one}.app/Contents/MacOS/{one}" for one in _MAC]
    found = (shutil.which(one) for one in (*([bundled] if bundled else ()), *_NAMES, *applications))
    path = next((one for one in found if one), None)
    if path is None:
        raise ConnectorError(
            "no Chromium was found: run `playwright install chromium`, or name one with WebConnector(browser=path)"
        )
    return path


class BrowserProcess:
    """One Chromium without a window and with an empty profile.

    Args:
        named: Its path or name; None looks for one.
        requests: Filters all that it sends.
        sandbox: Chromium's own; root cannot have it.
    """

    def __init__(self, named: str | None, requests: RequestFilter, *, sandbox: bool) -> None:
        self._named = named
        self._requests = requests
        self._has_sandbox = sandbox and (not hasattr(os, "geteuid") or os.geteuid() != 0)
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._watchdog = _Watchdog()

    @property
    def is_open(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def open(self) -> "BrowserContext":
        """Start it.

        Raises:
            ConnectorError: There is no Chromium, or it does not start.
        """
        try:
            self._playwright = await async_playwright().start()
            chromium = self._playwright.chromium
            self._browser = await chromium.launch(
                executable_path=find_chromium(self._named, chromium.executable_path),
                chromium_sandbox=self._has_sandbox,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            await self._watch(self._browser)
            await self._requests.attach(self._browser)
            context = await self._browser.new_context(
                viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]},
                accept_downloads=True,
                http_credentials=_NO_CREDENTIALS,
            )
            await context.add_init_script(_OPEN_SHADOWS)
        except BaseException as error:
            await self.close()
            if isinstance(error, PlaywrightError):
                raise ConnectorError(_start_failed(str(error))) from error
            raise
        return context

    async def close(self) -> None:
        """End it; a second time does nothing."""
        browser, playwright, self._browser, self._playwright = self._browser, self._playwright, None, None
        if browser is not None:
            with suppress(PlaywrightError):
                await browser.close()
        await self._watchdog.stop()
        if playwright is not None:
            await playwright.stop()

    async def _watch(self, browser: "Browser") -> None:
        session = await browser.new_browser_cdp_session()
        told = cast("dict[str, Any]", await session.send("SystemInfo.getProcessInfo"))  # pyright: ignore[reportUnknownMemberType]
        processes: list[dict[str, Any]] = told["processInfo"]
        process_id = next(int(one["id"]) for one in processes if one["type"] == "browser")
        await session.detach()
        group = os.getpgid(process_id)
        if group != os.getpgid(0):
            await self._watchdog.start(group)


class _Watchdog:
    """Kills a process group when this program ends, also by SIGKILL: it holds a pipe to the program."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, group: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _KILL_AT_END, str(group)),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def stop(self) -> None:
        """Kill what is left of the group, and end; a second time does nothing."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()


def _start_failed(text: str) -> str:
    if "sandbox" in text.lower():
        return "Chromium cannot start its sandbox here; allow user namespaces, or pass WebConnector(sandbox=False)"
    return f"Chromium does not start: {first_line(RuntimeError(text))}"
