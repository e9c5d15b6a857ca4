"""The server ends under an open page, and another takes its place."""

import json
import signal
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import expect

from memory_context import MemoryStore
from tests.support.waiting import until

from ..conftest import Server
from ..model_service import ModelService
from ..support.outages import hanging
from .conftest import SECRETARY, ChainlitServer, Person

pytestmark = pytest.mark.asyncio(loop_scope="module")

Come = Callable[..., Awaitable[Person]]

ASKED = "What do you remember about the release?"
UNREACHABLE = "Could not reach the server"


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
async def test_an_open_page_goes_on_in_its_thread_after_a_restart_when_the_database_answers_again(
    come: Come, chainlit_server: ChainlitServer, server: Server, chainlit_database_url: str, by: signal.Signals
) -> None:
    """The same thread with its name, its agent and what was said; the page says that it waits."""
    ada = await come()
    page = ada.page
    await ada.log_in("ada", "ada")
    await ada.say(f"remember that the release is on Friday the {by}th", 1)
    await ada.show("Agent")
    await page.locator("#mc-json").fill(json.dumps(SECRETARY))
    await page.get_by_role("button", name="Check").click()
    await page.get_by_role("button", name="Go on with it").click()
    await expect(page.locator(".mc-panel")).to_contain_text("A pasted agent answers: secretary.")
    await page.wait_for_url("**/thread/*")
    thread_id = page.url.rpartition("/")[2]

    async with MemoryStore(chainlit_database_url) as store:
        name = await until(lambda: _name_of(store, thread_id))
        await chainlit_server.stop(by)
        await expect(page.get_by_text(UNREACHABLE)).to_be_visible()
        async with page.expect_event("requestfailed", lambda request: request.url.endswith("/user")):
            await page.evaluate("() => window.dispatchEvent(new Event('focus'))")  # Chainlit asks who is logged in
        await page.locator("#chat-input").fill("a draft")
        await ada.profile.set_offline(True)
        await chainlit_server.start()
        waits, chainlit_server.had_outage = len(_waits(chainlit_server)), True
        with hanging(server):
            await ada.profile.set_offline(False)
            await until(lambda: len(_waits(chainlit_server)) >= waits + 2)
            await expect(page.get_by_text(UNREACHABLE)).to_be_visible()
            await expect(page.locator("#chat-submit")).to_be_disabled()
        await expect(page.get_by_text(UNREACHABLE)).to_have_count(0)
        await expect(page.locator("#chat-input")).to_have_text("a draft")
        await ada.say(ASKED, 2)
        await expect(ada.answers.last).to_contain_text(f"Friday the {by}th")
        await ada.show("What the model saw")
        await expect(page.locator(".mc-panel")).to_contain_text("secretary was sent")
        assert page.url.endswith(thread_id)
        assert await _name_of(store, thread_id) == name


async def test_a_question_without_an_answer_is_told_after_a_restart(
    come: Come, chainlit_server: ChainlitServer, service: ModelService
) -> None:
    grace = await come()
    page = grace.page
    await grace.log_in("grace", "grace")
    await grace.say("hello", 1)
    service.may_go_on.clear()
    await grace.write("And a question that is not answered.")
    await expect(page.get_by_text("Half an", exact=True)).to_be_visible()
    await chainlit_server.stop(signal.SIGKILL)
    await chainlit_server.start()
    await expect(page.get_by_text("The server ended before it answered. Send your message again.")).to_be_visible()
    service.may_go_on.set()
    await grace.say("So I ask again.", 3)
    await expect(grace.answers.last).to_have_text("Half an answer and the rest.")


def _waits(chainlit_server: ChainlitServer) -> list[str]:
    """What the server logged of threads that it could not read."""
    told = ("a page waits for its thread", "cannot be shown")
    return [line for line in chainlit_server.log.splitlines() if any(words in line for words in told)]


async def _name_of(store: MemoryStore, thread_id: str) -> str | None:
    whole = await store.threads.thread("ada", thread_id)
    return whole.thread.name if whole else None
