"""A browser as an agent sees it: what an action changed on the page, and the page as it is now."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autogen_core import Component, ComponentBase
from autogen_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.tokens import default_token_counter

from ..protocols import TextObservation
from .actions import WebActions
from .browser import BrowserProcess
from .capture import differs, image_of, thumbnail
from .report import page_head, page_state, shown_url, tree_change
from .request_filter import RequestFilter
from .saved import restored, saved
from .screen import Screen, Shown
from .transfers import Transfers

__all__ = ["WebConnector", "WebConnectorConfig"]

_SUBJECT_CHARACTERS = 120
_MOST_REFUSALS = 5  # told of one step; a page can ask for any number


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


class WebConnector(ComponentBase[BaseModel], Component[WebConnectorConfig]):
    """Tools for a Chromium of its own, and observations of what changes on its pages.

    The constructor opens nothing. The browser has an empty profile, and ends with the program.

    Args:
        url: The first page.
        id: Source of the observations, and beginning of the tools' names.
        browser: Path or name of a Chromium; None looks for one.
        allowed_hosts: `example.org`, `*.example.org`, also with a port; None allows every public host.
        allow_private: Allow this machine and private networks.
        folder: Downloads land in it, only its files can be uploaded; None makes one that ends with the browser.
        has_pictures: Take screenshots; without them only the tree tells what changed.
        sandbox: Chromium's own; False where the system has no user namespaces.
    """

    component_type = "connector"
    component_config_schema = WebConnectorConfig
    component_provider_override = "memory_context.WebConnector"

    def __init__(
        self,
        url: str = "about:blank",
        id: str = "web",
        *,
        browser: str | None = None,
        allowed_hosts: Sequence[str] | None = None,
        allow_private: bool = False,
        folder: str | None = None,
        has_pictures: bool = True,
        sandbox: bool = True,
    ) -> None:
        self.id = id
        self.state_limit_tokens = 1500
        self._config = WebConnectorConfig(
            id=id,
            url=url,
            browser=browser,
            allowed_hosts=None if allowed_hosts is None else [*allowed_hosts],
            allow_private=allow_private,
            folder=folder,
            has_pictures=has_pictures,
            sandbox=sandbox,
        )
        self._requests = RequestFilter(allowed_hosts, allow_private=allow_private)
        self._transfers = Transfers(folder, self._tell)
        self._screen = Screen(BrowserProcess(browser, self._requests, sandbox=sandbox), self._transfers, [url])
        self._actions = WebActions(id, self._screen, self._transfers, self._ready, self._refusals)
        self._seen: Shown | None = None
        self._seen_picture = b""
        self._trouble = ""
        self._is_started = self._is_fresh = False
        self._lock = asyncio.Lock()

    def _to_config(self) -> WebConnectorConfig:
        return self._config

    @classmethod
    def _from_config(cls, config: WebConnectorConfig) -> Self:
        return cls(**config.model_dump())

    async def on_start(self) -> None:
        """Start the browser with its page.

        Raises:
            ConnectorError: There is no Chromium, or it does not start; says what to do.
        """
        async with self._lock:
            await self._screen.open()
            self._is_started = True

    async def on_stop(self) -> None:
        """End the browser; the next start opens its pages again."""
        self._is_started = False
        await self._screen.close()
        self._transfers.close()

    async def _ready(self) -> None:
        if not self._is_started:
            raise ConnectorError("the browser is not open; the session has not begun, or has ended")
        self._is_fresh = False
        if not self._screen.is_open:
            await self._screen.open()
            self._tell("The browser ended unexpectedly and was started again; what was filled in is lost")

    def _tell(self, event: str) -> None:
        self._screen.tell(event)

    def _refusals(self) -> list[str]:
        refused = [*self._requests.refused]
        self._requests.refused.clear()
        more = len(refused) - _MOST_REFUSALS
        return refused if more <= 0 else [f"{more} requests", *refused[-_MOST_REFUSALS:]]

    def tools(self) -> list[BaseTool[Any, Any]]:
        """Return tools to go to addresses, act on elements, read, and handle tabs, dialogs and files."""
        return self._actions.tools(self._lock)

    async def get_observations(self) -> list[TextObservation]:
        """Return what changed on the shown page, and what happened beside it; first, which page there is."""
        async with self._lock:
            await self._ready()
            page = await self._look()
            observations = [] if page is None else await self._page_observations(page)
            events = [*self._screen.news, *(f"Refused {one}" for one in self._refusals())]
            self._screen.news.clear()
            self._is_fresh = True
            return [*(TextObservation(self.id, f"[{self.id}] {one}", "event") for one in events), *observations]

    async def _look(self) -> Shown | None:
        """Return the page; None if it cannot be read now, which the state and the observations tell."""
        before, self._trouble = self._trouble, ""
        try:
            return await self._screen.look(has_picture=self._config.has_pictures)
        except ConnectorError as error:
            self._trouble = str(error)
            if self._trouble != before and not self._screen.news:  # else the event was told
                self._tell(self._trouble)
            return None

    async def _page_observations(self, page: Shown) -> list[TextObservation]:
        before, picture = self._seen, b""
        if page.picture:
            picture = await asyncio.to_thread(thumbnail, page.picture)
        change = "" if before is None else await asyncio.to_thread(tree_change, before, page)
        is_news = (
            before is None
            or bool(change)
            or (before.url, before.title, before.tabs) != (page.url, page.title, page.tabs)
            or (bool(picture and self._seen_picture) and differs(self._seen_picture, picture))
        )
        if not is_news:
            return []
        if before is None:
            lines = [f"[{self.id}] Initial page: {shown_url(page.url)} ({page.title[:200]})"]
        else:
            lines = [f"Screen update. Current URL: {shown_url(page.url)}", *page_head(page)]
            lines += [change] if change else []
        images = (image_of(page.picture),) if page.picture else ()
        self._seen, self._seen_picture = replace(page, picture=b""), picture or self._seen_picture
        subject = f"page {page.url.partition('#')[0][:_SUBJECT_CHARACTERS]}"
        return [TextObservation(self.id, "\n".join(lines), "screen", subject, images)]

    async def render_current_state(self) -> list[str]:
        """Return address, title, tabs, open dialog, downloads, and the tree with references."""
        async with self._lock:
            if not self._is_fresh:
                await self._ready()
                await self._look()
            self._is_fresh = False
            notes = [f"{self._trouble}; below is the page as it was last read"] if self._trouble else []
            if self._transfers.records:
                notes.append(f"Downloads: {', '.join(map(str, self._transfers.records[-5:]))}")
            page, limit = self._screen.shown, self.state_limit_tokens
            return [await asyncio.to_thread(page_state, page, notes, limit, default_token_counter(), self.id)]

    def save_state(self) -> Mapping[str, Any]:
        """Return what is compared with later; of a large page only its address."""
        urls = self._screen.urls()
        return saved(self._seen, self._seen_picture, self._screen.table.made, urls) if self._seen else {"urls": urls}

    def load_state(self, data: Mapping[str, Any]) -> None:
        """Take over what an earlier process saw; the next start opens its pages."""
        shown, picture, made, urls = restored(data)
        self._seen, self._seen_picture = shown, picture
        self._screen.restore(shown, made, urls)
