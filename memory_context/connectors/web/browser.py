"""Chromium as a process of this program: found, started, and ended by Playwright's driver when the program ends."""

import os
import shutil
from contextlib import suppress

from playwright.async_api import Browser, BrowserContext, HttpCredentials, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from memory_context.foundation.errors import ConnectorError

from .capture import first_line
from .request_filter import RequestFilter

__all__ = ["VIEWPORT", "BrowserProcess", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")
_MAC = ("Chromium", "Google Chrome", "Microsoft Edge", "Brave Browser")
VIEWPORT = 1280, 720
"""Width and height of the visible part, in pixels."""
# A Basic challenge opens Chromium's login prompt, which nobody sees or answers; these are refused, so the request ends.
_NO_CREDENTIALS: HttpCredentials = {"username": "", "password": ""}


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

    @property
    def is_open(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def open(self) -> BrowserContext:
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
            await self._requests.attach(self._browser)
            context = await self._browser.new_context(
                viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]},
                accept_downloads=True,
                http_credentials=_NO_CREDENTIALS,
            )
        except BaseException as error:
            await self.close()
            if isinstance(error, PlaywrightError):
                reason = f"Chromium does not start: {first_line(error)}"
                if "sandbox" in str(error).lower():
                    reason = "Chromium cannot start its sandbox here; allow user namespaces, or pass sandbox=False"
                raise ConnectorError(reason) from error
            raise
        return context

    async def close(self) -> None:
        """End it; a second time does nothing."""
        browser, playwright, self._browser, self._playwright = self._browser, self._playwright, None, None
        if browser is not None:
            with suppress(PlaywrightError):
                await browser.close()
        if playwright is not None:
            await playwright.stop()
