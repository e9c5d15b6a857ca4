"""A real Chromium in front of a sample that runs as a process of its own; one of each per module."""

import os
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, cast

import pytest_asyncio
from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Browser, Page, async_playwright

from ..conftest import Server, needs

_numbers = count(1)


def chromium_options() -> dict[str, Any]:
    """Return the options that start Chromium here."""
    return {"executable_path": needs("chromium"), "args": ["--no-sandbox"] if os.geteuid() == 0 else []}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def module_database_of(server: Server, template: str, prefix: str) -> Generator[str, None, None]:
    """Yield the name of a database for the tests of a module."""
    name = f"{prefix}_{next(_numbers)}"
    server.execute("CREATE DATABASE {name} TEMPLATE {template}", name=name, template=template)
    yield name
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)


@pytest_asyncio.fixture(name="browser", scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    """A Chromium without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium_options())
        yield browser
        await browser.close()


async def nothing_serious(page: Page) -> None:
    """Let axe find nothing serious on a page."""
    found: Any = await cast(Any, Axe()).run(page)
    assert len(found.response["passes"]) > 15
    assert [(one["id"], one["nodes"][0]["html"]) for one in found.response["violations"]
            if one["impact"] in ("serious", "critical")] == []  # fmt: skip
