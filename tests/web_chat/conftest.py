"""A real Chromium on the sample, which runs as a process of its own on the tests' Postgres; one of each per module."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from memory_context import MemoryStore
from memory_context.store.conversations import ChatMessage
from tests.support.waiting import PATIENT_SECONDS, until

from ..conftest import REPOSITORY, Server, needs
from ..support.browser import chromium, free_port, module_database_of  # noqa: F401


@dataclass
class ChatServer:
    """The sample as a process; it can be killed and started again at the same address."""

    database: str
    database_url: str
    postgres: Server
    store: MemoryStore
    log: Path
    port: int
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "samples.web_chat", "--port", str(self.port)),
                *("--words-per-second", "300", "--public-host", "chat.test"),
                cwd=REPOSITORY,
                env={**os.environ, "MEMORY_CONTEXT_URL": self.database_url, "OPENAI_API_KEY": ""},
                stdout=log,
                stderr=log,
            )

        async def serves() -> bool:
            assert self.process is not None
            assert self.process.returncode is None, self.log.read_text()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return True
            return False

        await until(serves, "the server to listen")

    async def end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(how)
            await self.process.wait()

    def raw_ids(self, session_id: str) -> list[str]:
        """Return the ids of a session's chat messages as they lie in the rows, each as often as it is there."""
        rows = self.postgres.execute(
            "SELECT session_id, message ->> 'id' FROM memory_context.recent_conversation_history, "
            "jsonb_array_elements(message_batch) AS message WHERE kind = 'client'",
            self.database,
        )
        return [str(id_) for session, id_ in rows if session == session_id]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat_server(
    server: Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ChatServer]:
    """The running sample, on a database of its own."""
    needs("chromium")
    log = tmp_path_factory.mktemp("web_chat") / "log.txt"
    with module_database_of(server, template, "web_chat") as name:
        async with MemoryStore(server.url(name)) as store:
            chat_server = ChatServer(name, server.url(name), server, store, log, free_port())
            await chat_server.start()
            yield chat_server
            await chat_server.end(signal.SIGTERM)
            assert chat_server.process is not None
            assert chat_server.process.returncode == 0
    assert "Traceback" not in log.read_text(), log.read_text()


@dataclass
class Visitor:
    """Somebody with a browser profile of their own; `errors` are what the pages threw or wrote to the console."""

    context: BrowserContext
    server: ChatServer
    host: str = "127.0.0.1"
    errors: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.context.on("console", lambda said: self.errors.extend([said.text] if said.type == "error" else []))

    async def come(self, path: str = "") -> Page:
        """Open the page in a new tab and wait until it is connected."""
        page = await self.context.new_page()
        page.set_default_timeout(PATIENT_SECONDS * 1000)
        await page.goto(f"http://{self.host}:{self.server.port}/{path}")
        await page.wait_for_selector("#connection[data-state=online]")
        return page

    async def user_id(self) -> str:
        """Return who the server takes this browser for."""
        cookies = {cookie.get("name"): cookie.get("value", "") for cookie in await self.context.cookies()}
        return cookies["web_chat_visitor"].rpartition(".")[0]

    async def archived(self, page: Page, many: int) -> list[ChatMessage]:
        """Return the messages of the page's conversation, once so many are durable; each is there once, in order."""
        session_id = session_of(page)
        user_id = await self.user_id()

        async def enough() -> list[ChatMessage]:
            messages = await self.server.store.conversations.chat_page(user_id, session_id, limit=1000)
            return messages if len(messages) >= many else []

        messages: list[ChatMessage] = await until(enough, f"{many} messages archived")
        assert sorted(self.server.raw_ids(session_id)) == sorted({message.id for message in messages})
        assert messages == sorted(messages, key=lambda message: (message.timestamp, message.id))
        return messages


Visit = Callable[..., Awaitable[Visitor]]


def session_of(page: Page) -> str:
    """Return the session that a page shows."""
    session = page.url.partition("#/")[2]
    assert session
    assert not session.startswith("new-")
    return session


async def mid_answer(page: Page) -> None:
    """Wait until the beginning of an answer shows."""
    await page.wait_for_selector(".message.ai[data-state=writing] .text p")


async def say(page: Page, text: str) -> None:
    """Write something and send it."""
    await page.fill("#text", text)
    await page.press("#text", "Enter")


async def answers(page: Page, many: int) -> list[str]:
    """Return the answers, once there are so many, nothing is being written, and what the server has is loaded."""
    await page.wait_for_function(
        "many => document.querySelectorAll('.message.ai[data-state=sent]').length >= many"
        " && !document.querySelector('[data-state=sending], [data-state=writing], [data-state=queued]')"
        " && !document.querySelector('[aria-busy=true]')",
        arg=many,
        polling=50,
    )
    return await page.locator(".message.ai .text").all_inner_texts()


async def begin(visit: Visit, *texts: str, **options: Any) -> tuple[Visitor, Page]:
    """Have a new visitor say this, and return both once all is answered."""
    visitor = await visit(**options)
    page = await visitor.come()
    for place, text in enumerate(texts, 1):
        await say(page, text)
        await answers(page, place)
    return visitor, page


async def words(page: Page) -> list[tuple[str, str]]:
    """Return who said what, in the order of the page."""
    return await page.evaluate(
        "() => [...document.querySelectorAll('.message')]"
        ".map(item => [item.classList.contains('user') ? 'user' : 'ai', item.querySelector('.text').innerText.trim()])"
    )


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser, chat_server: ChatServer) -> AsyncIterator[Visit]:
    """Make visitors: `await visit(viewport=…)`; at the end, no page may have had an error that nobody looked at."""
    visitors: list[Visitor] = []

    async def visit(**options: Any) -> Visitor:
        options = {"reduced_motion": "reduce", **options}  # painting without a graphics card takes time
        visitors.append(Visitor(await browser.new_context(**options), chat_server))
        return visitors[-1]

    yield visit
    errors = [error for visitor in visitors for error in visitor.errors]
    for visitor in visitors:
        await visitor.context.close()
    assert errors == []
