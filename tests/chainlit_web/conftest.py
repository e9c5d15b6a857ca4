"""The sample as a process on the tests' Postgres, with a real Chromium in front of it; one of each per module."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, Request, expect

from tests.support.waiting import PATIENT_SECONDS, soon

from ..conftest import NO_TELEMETRY, REPOSITORY, Server, needs
from ..model_service import ModelService, model_service
from ..support.browser import chromium, free_port, module_database_of  # noqa: F401

SAMPLE = REPOSITORY / "samples" / "chainlit_web"

SECRETARY = {
    "provider": "autogen_agentchat.agents.AssistantAgent",
    "config": {"name": "secretary", "system_message": "You keep notes."},
}
"""An agent to paste."""

_CLICK_SECONDS = 10

expect.set_options(timeout=PATIENT_SECONDS * 1000)


@dataclass
class ChainlitServer:
    """The sample as a process; it can be stopped and started again at the same address."""

    database_url: str
    folder: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict[str, str])
    had_outage: bool = False  # Chainlit logs the database's errors with tracebacks
    process: asyncio.subprocess.Process | None = field(default=None, init=False)
    _reading: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    async def start(self) -> None:
        """Start it and wait until it says where to open it."""
        root = self.folder / "root"
        if not root.exists():  # Chainlit writes into its root
            shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__", ".files", "*.py"))
        with (self.folder / "log.txt").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "samples.chainlit_web", "--port", str(self.port)),
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "MEMORY_CONTEXT_URL": self.database_url,
                    "OPENAI_API_KEY": "",
                    "PYTHONPATH": str(NO_TELEMETRY),
                    "CHAT_USERS": "",
                    "CHAINLIT_APP_ROOT": str(root),
                    "CHAINLIT_AUTH_SECRET": "x" * 64,
                    **self.environment,
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        await soon(self._until_open())
        self._reading = asyncio.create_task(self._read_on())

    async def _until_open(self) -> None:
        while f"Open {self.url}" not in (line := await self._line()):
            assert line, self.log

    async def _read_on(self) -> None:
        while await self._line():
            pass

    async def _line(self) -> str:
        """Return the next line that it prints, and keep it; "" when it has ended."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        with (self.folder / "log.txt").open("ab") as log:
            log.write(line)
        return line.decode()

    async def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """Stop it, as a person does unless told otherwise, and wait until it has ended."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(by)
            await self.process.wait()
            if self._reading is not None:
                await self._reading


@pytest.fixture(scope="module")
def chainlit_database_url(server: Server, template: str) -> Iterator[str]:
    """The address of a database for the tests of a module."""
    with module_database_of(server, template, "chainlit_web") as name:
        yield server.url(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chainlit_server(
    chainlit_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ChainlitServer]:
    """The running sample."""
    needs("chromium")
    chainlit_server = ChainlitServer(chainlit_database_url, tmp_path_factory.mktemp("chainlit_web"), free_port())
    await chainlit_server.start()
    yield chainlit_server
    await chainlit_server.stop()
    assert chainlit_server.had_outage or "Traceback" not in chainlit_server.log, chainlit_server.log


@dataclass
class Person:
    """Somebody with a browser profile of their own, and what was thrown in its page."""

    profile: BrowserContext
    page: Page
    server: ChainlitServer
    errors: list[str] = field(default_factory=list[str])
    session_id: str = ""

    async def watch(self) -> None:
        """Note what should not happen, and let no request leave this machine."""
        self.page.set_default_timeout(PATIENT_SECONDS * 1000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.page.on("request", self._note)
        await self.profile.route(lambda url: not url.startswith(self.server.url), lambda route: route.abort())

    def _note(self, request: Request) -> None:
        if request.url.endswith("/set-session-cookie"):
            self.session_id = request.post_data_json["session_id"]

    async def log_in(self, name: str, password: str) -> None:
        """Log in at the form."""
        await self.page.goto(self.server.url)
        await self.page.fill("#email", name)
        await self.page.fill("#password", password)
        await self.page.press("#password", "Enter")

    @property
    def answers(self) -> Locator:
        """The messages of agents, and the errors, on the page."""
        return self.page.locator("[data-step-type='assistant_message']")

    async def write(self, text: str) -> None:
        """Send a message."""
        await self.page.locator("#chat-input").fill(text)
        await self.page.locator("#chat-submit").click()  # waits until the page is connected

    async def say(self, text: str, answers: int) -> None:
        """Send a message and wait until there are so many answers, the last of them complete."""
        await self.write(text)
        await self.answered(answers)

    async def answered(self, answers: int) -> None:
        """Wait until there are so many answers, the last of them complete."""
        await expect(self.answers).to_have_count(answers)
        await expect(self.page.locator("#stop-button")).to_have_count(0)

    async def act(self, name: str, payload: dict[str, Any]) -> Any:
        """Call an action by a request, as whoever wants to do more than the page offers, and return the response."""
        action = {"id": "x", "name": name, "payload": payload, "label": "", "tooltip": "", "icon": "", "forId": ""}
        answer = await self.profile.request.post(
            f"{self.server.url}project/action", data={"sessionId": self.session_id, "action": action}
        )
        return (await answer.json())["response"]

    async def show(self, tab: str) -> None:
        """Open the side panel at a tab."""
        if not await self.page.locator(".mc-panel").is_visible():
            await self.click_for(self.page.locator("#header a[href='#memory']"), self.page.locator(".mc-panel"))
        selected = self.page.get_by_role("tab", name=tab, selected=True)
        await self.click_for(self.page.get_by_role("tab", name=tab, exact=True), selected)

    async def click_for(self, button: Locator, wanted: Locator) -> None:
        """Click until something is there: as a person would, where the page is built anew and a click is lost."""
        for _ in range(int(PATIENT_SECONDS / _CLICK_SECONDS)):
            await button.click()
            with suppress(AssertionError):
                return await expect(wanted).to_be_visible(timeout=_CLICK_SECONDS * 1000)
        raise AssertionError(f"{wanted} does not come")


@pytest_asyncio.fixture(loop_scope="module")
async def come(browser: Browser, chainlit_server: ChainlitServer) -> AsyncIterator[Callable[[], Awaitable[Person]]]:
    """Make people: `await come()`; at the end, nothing was thrown in their pages."""
    people: list[Person] = []

    async def come(**options: Any) -> Person:
        profile = await browser.new_context(reduced_motion="reduce", **options)  # a panel that slides is missed
        person = Person(profile, await profile.new_page(), chainlit_server)
        await person.watch()
        people.append(person)
        return person

    yield come
    errors = [person.errors for person in people]
    for person in people:
        await person.profile.close()
    assert errors == [[]] * len(people)


@pytest_asyncio.fixture(loop_scope="module")
async def service(chainlit_server: ChainlitServer) -> AsyncIterator[ModelService]:
    """The model's service; the server, also when it is started again, uses it instead of the scripted model."""
    await chainlit_server.stop()
    async with model_service() as service:
        chainlit_server.environment = {
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": service.url,
            "MEMORY_CONTEXT_LIGHT_MODEL": "off",
        }
        await chainlit_server.start()
        yield service
        service.may_go_on.set()
        await chainlit_server.stop()
    chainlit_server.environment = {}
    await chainlit_server.start()
