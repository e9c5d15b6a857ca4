"""`open`: the inspector as a process: its address lets in one page, once, and Ctrl-C ends it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from playwright.async_api import async_playwright

from tests.conftest import REPOSITORY
from tests.support.browser import chromium_options
from tests.support.waiting import PATIENT_SECONDS, soon

from .conftest import Run
from .lived import SESSION, Lived


def test_a_session_that_is_not_there_is_refused_with_near_ones(run: Run, lived: Lived):
    ended, out, err = run("open", "owl", "--no-browser", "--user", "bob", "--url", lived.url)
    assert (ended, out) == (1, "")
    assert "user 'bob' has no session 'owl'" in err
    ended, out, err = run("open", "howls", "--no-browser", "--user", "alice", "--url", lived.url)
    assert (ended, out) == (1, "")
    assert f"did you mean {SESSION!r}" in err


def test_a_port_in_use_is_reported_first(run: Run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended, out, err = run("open", "--port", port, "--url", "postgresql://127.0.0.1:1/none")
    assert (ended, out) == (1, "")
    assert err == f"memory-context: port {port} is in use on 127.0.0.1: choose another with --port\n"


@asynccontextmanager
async def opened(*arguments: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str], None]:
    """Run the command as it is installed; give the process and the address that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from memory_context.surfaces.cli import main; main()", "open", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    try:
        yield process, (await soon(process.stdout.readline())).decode().strip()  # type: ignore[union-attr]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.thorough
async def test_the_address_lets_in_one_page_of_one_user_until_ctrl_c(lived: Lived):
    async with opened(SESSION, "--no-browser", "--user", "alice", "--url", lived.url) as (process, address):
        page, _, code = address.partition("?enter=")
        assert page.endswith(f"/inspector/#/session/{SESSION}/coder")
        async with httpx.AsyncClient(base_url=page.partition("#")[0], timeout=PATIENT_SECONDS) as client:
            assert (await client.get("")).status_code == 200
            refused = await client.get("api/sessions")
            assert (refused.status_code, "memory-context open" in refused.text) == (403, True)
            assert (await client.post("api/enter", json={"code": "guessed"})).status_code == 403
            foreign = {"Origin": "http://evil.example"}
            assert (await client.post("api/enter", json={"code": code}, headers=foreign)).status_code == 403
            token = (await client.post("api/enter", json={"code": code})).json()["token"]
            assert (await client.post("api/enter", json={"code": code})).status_code == 403
            client.headers["Authorization"] = f"Bearer {token}"
            found = (await client.get("api/sessions")).json()["sessions"]
            assert SESSION in {one["session_id"] for one in found}
            assert (await client.get("api/sessions", headers={"Host": "evil.example"})).status_code == 421
        process.send_signal(signal.SIGINT)
        assert await soon(process.wait()) == 0
        assert (await process.stderr.read()).decode() == "Ctrl-C ends it\n"  # type: ignore[union-attr]


@pytest.mark.thorough
async def test_a_browser_that_opens_the_address_shows_the_session_also_after_a_reload(lived: Lived):
    """In all of its tabs; another browser is sent away with the remedy."""
    arguments = (SESSION, "--no-browser", "--user", "alice", "--url", lived.url)
    async with opened(*arguments) as (_, address), async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium_options())
        mine, other = [await browser.new_context() for _ in range(2)]
        page = await mine.new_page()
        await page.goto(address)
        await page.get_by_role("heading", name="Survey the owls.").wait_for()
        assert "enter" not in page.url
        await page.reload()
        await page.get_by_role("heading", name="Survey the owls.").wait_for()
        tab = await mine.new_page()
        await tab.goto(address.partition("#")[0])
        await tab.get_by_role("link", name="Survey the owls.").wait_for()
        foreign = await other.new_page()
        await foreign.goto(address)
        await foreign.get_by_role("alert").get_by_text("start it again").wait_for()
        await browser.close()
