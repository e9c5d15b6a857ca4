"""A browser as an agent sees it: what an action changed on the page, and the page as it is now."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autogen_core import Component, ComponentBase, Image
from autogen_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.tokens import default_token_counter

from ..protocols import TextObservation
from .actions import PDF_NOTE, WebActions
from .browser import Browser, WebConnectorConfig
from .page import Picture, Shown
from .report import Change, changes_between, page_head, page_state, shown_url, told_changes

__all__ = ["WebConnector", "WebConnectorConfig"]

_SUBJECT_CHARACTERS = 120
_MOST_HEADINGS = 3
_MOST_CHANGED = 20  # lines that came; where most are new, that is another page
_FRESH_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.2


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
        has_pictures: Take screenshots; without them only the lines of the page tell what changed.
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
        self._browser = Browser(self._config)
        self._seen: Shown | None = None  # by the observations
        self._shown: Picture | None = None  # by the state
        self._trouble = ""
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
            await self._browser.open()

    async def on_stop(self) -> None:
        """End the browser; the next start opens its pages again."""
        await self._browser.close()

    def tools(self) -> list[BaseTool[Any, Any]]:
        """Return tools to go to addresses, act on elements, read, and handle tabs, dialogs and files."""
        return WebActions(self.id, self._browser).tools(self._lock)

    async def get_observations(self) -> list[TextObservation]:
        """Return what changed on the shown page, and what happened beside it; first, which page there is."""
        async with self._lock:
            await self._browser.ensure_open()
            page = await self._look()
            observations = [] if page is None else await self._page_observations(page)
            events = [*self._browser.news, *(f"Refused {one}" for one in self._browser.refusals())]
            self._browser.news.clear()
            return [*(TextObservation(self.id, f"[{self.id}] {one}", "event") for one in events), *observations]

    async def _look(self) -> Shown | None:
        """Return the page; None if it cannot be read now, which the state and the observations tell."""
        before, self._trouble = self._trouble, ""
        try:
            return await self._browser.look(has_picture=self._config.has_pictures)
        except ConnectorError as error:
            self._trouble = str(error)
            if self._trouble != before and not self._browser.news:  # else the event was told
                self._browser.tell(self._trouble)
            return None
        finally:
            self._browser.fresh_until = time.monotonic() + _FRESH_SECONDS

    async def _page_observations(self, page: Shown) -> list[TextObservation]:
        before, changes = self._seen, list[Change]()
        if before is not None:
            compared = before.lines, page.lines, self._browser.blinking
            changes = await asyncio.to_thread(changes_between, *compared)
        is_same = before is not None and (before.url, before.title, before.tabs) == (page.url, page.title, page.tabs)
        if is_same and not changes and not await self._is_new_picture(page):
            return []
        lines = [f"Screen update. Current URL: {shown_url(page.url)}", *page_head(page)]
        if before is None:
            lines = [f"[{self.id}] Initial page: {shown_url(page.url)} ({page.title[:200]})"]
        elif _is_other_page(before, page, changes):
            headings = [line.text for line in page.lines if line.key.startswith("heading")][:_MOST_HEADINGS]
            lines += [*headings, f"[a new page of {len(page.lines):,} lines: see its state]"]
        else:
            lines += told_changes(changes, page.lines)
        images = (page.picture.image,) if page.picture else ()
        self._seen = replace(page, picture=page.picture or (before and before.picture))
        subject = f"page {page.url.partition('#')[0][:_SUBJECT_CHARACTERS]}"
        return [TextObservation(self.id, "\n".join(lines), "screen", subject, images)]

    async def _is_new_picture(self, page: Shown) -> bool:
        """Return whether the picture differs, and stays when it is looked at again; else it moves by itself."""
        before, now = self._seen and self._seen.picture, page.picture
        if before is None or now is None or not now.differs(before):
            return False
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        again = await self._look()
        return again is None or again.picture is None or not again.picture.differs(now)

    async def render_current_state(self) -> list[str | Image]:
        """Return address, title, tabs, open dialog, downloads, the lines with references, and the picture."""
        async with self._lock:
            if time.monotonic() > self._browser.fresh_until:
                await self._browser.ensure_open()
                await self._look()
            page, notes = self._browser.shown, list[str]()
            if self._trouble:
                notes.append(f"{self._trouble}; below is the page as it was last read")
            if self._browser.shows_pdf:
                notes.append(PDF_NOTE.format(self.id))
            if records := self._browser.transfers.records[-5:]:
                notes.append(f"Downloads: {', '.join(map(str, records))}")
            limit, counter = self.state_limit_tokens, default_token_counter()
            text = await asyncio.to_thread(page_state, page, notes, limit, counter, self.id)
            if page.picture is None:
                return [text]
            # the same image while nobody would see a difference, so that the state is no new one
            if self._shown is None or page.picture.differs(self._shown):
                self._shown = page.picture
            return [text, self._shown.image]

    def save_state(self) -> Mapping[str, Any]:
        """Return the addresses of the tabs, and how many references were given."""
        return {"urls": self._browser.urls(), "made": self._browser.references.made}

    def load_state(self, data: Mapping[str, Any]) -> None:
        """Take over the pages of an earlier process; the next start opens them, and no reference is given twice."""
        self._browser.restore(int(data.get("made", 0)), [*data.get("urls", ())])


def _is_other_page(before: Shown, page: Shown, changes: Sequence[Change]) -> bool:
    if before.document != page.document and before.url.partition("#")[0] != page.url.partition("#")[0]:
        return True
    came, gone = sum(len(one.added) for one in changes), sum(len(one.removed) for one in changes)
    is_mostly_new = 2 * (came + gone) > len(page.lines) + len(before.lines)
    return is_mostly_new and (before.document != page.document or came > _MOST_CHANGED)
