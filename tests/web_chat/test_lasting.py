"""Conversations in a real browser: whatever dies, each message is archived exactly once, in order."""

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import psutil
import pytest
from playwright.async_api import BrowserContext, Error, Page, Route, async_playwright

from samples.web_chat.app import chat_app
from samples.web_chat.scripted import ScriptedClient

from ..support.browser import chromium_options
from ..support.scratch import SCRATCH
from .conftest import ChatServer, Visitor, answers, mid_answer, say, session_of, until, words

pytestmark = pytest.mark.asyncio(loop_scope="module")

Visit = Callable[..., Awaitable[Visitor]]

A_FILE = "Read store/pool.py and show me how a connection is opened"
A_TOUR = "Give me a tour: which parts does the package have?"  # the longest answer
A_FACT = "Remember that the release is on Friday"
A_SEARCH = "Where is StoreUnavailableError raised?"
KEPT = "() => Object.keys(localStorage).filter(key => key.startsWith('web-chat/pending/')).length"

# what the browser has on disk, and a transaction that keeps everybody else from it until `letGo` is set
ON_DISK = """() => new Promise((resolve, reject) => {
  indexedDB.open("web-chat").onsuccess = ({ target }) => {
    const all = target.result.transaction("pending").objectStore("pending").getAll();
    all.onsuccess = () => { target.result.close(); resolve(all.result); };
    all.onerror = () => reject(all.error);
  };
})"""
# in the page: a request that a route of Playwright holds goes on to the server when the page closes
HOLD_QUESTIONS = """() => {
  const send = window.fetch;
  window.fetch = (address, options) => {
    if (new URL(address, location).pathname !== "/api/chat") return send(address, options);
    window.isHeld = true;
    return new Promise(() => {});
  };
}"""
HOLD_DATABASE = """() => new Promise(resolve => {
  indexedDB.open("web-chat").onsuccess = ({ target }) => {
    const table = target.result.transaction("pending", "readwrite").objectStore("pending");
    const goOn = () => {
      resolve();
      if (window.letGo) target.result.close();
      else table.count().onsuccess = goOn;
    };
    goOn();
  };
})"""


async def nothing_is_kept(page: Page) -> None:
    """Wait until the browser has forgotten everything, since the server said that it is durable."""

    async def is_empty() -> bool:
        return await page.evaluate(KEPT) == 0

    await until(is_empty, "the browser to forget what is durable")


async def is_on_disk(page: Page, *texts: str) -> None:
    """Wait until the browser has written messages to its database."""

    async def are_there() -> bool:
        found = str(await page.evaluate(ON_DISK))
        return all(text in found for text in texts)

    await until(are_there, "the messages to be on disk")


async def test_a_closed_tab_has_archived_everything(visit: Visit):
    """Question and answer are rows in the database as soon as the tab is gone, though no batch was full."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_FILE)
    (answer,) = await answers(page, 1)
    assert "```" not in answer
    await page.close(run_before_unload=True)
    messages = await visitor.archived(page, 2)
    assert messages[0].text == A_FILE
    assert [message.sender for message in messages] == ["user", "ai"]


async def test_a_tab_that_closes_before_its_first_answer_has_archived_the_question(visit: Visit):
    """The page makes the session's id itself, so that it need not wait for the server's; the next visit asks again."""
    visitor = await visit()
    page = await visitor.come()
    await page.evaluate(HOLD_QUESTIONS)
    await say(page, A_FACT)
    await page.wait_for_function("() => window.isHeld", polling=50)
    await page.close(run_before_unload=True)
    user_id = await visitor.user_id()

    async def begun() -> list[str]:
        sessions = await visitor.server.store.conversations.sessions(user_id, only_chats=True)
        return [f"{one.title}: {one.chat_count}" for one in sessions]

    assert await until(begun, "a session of the question") == [f"{A_FACT}: 1"]
    page = await visitor.come()
    await answers(page, 1)
    await page.close(run_before_unload=True)
    assert [message.sender for message in await visitor.archived(page, 2)] == ["user", "ai"]


async def test_when_a_page_archives_is_a_setting(visit: Visit):
    """The server tells the page; without it the page has its own. One can write before it comes."""
    visitor = await visit()
    page = await visitor.come()
    told = await page.request.get(f"{visitor.server.url}settings.json")
    assert await told.json() == {"archive_messages": 20, "archive_seconds": 120}
    app = chat_app(visitor.server.store, ScriptedClient(0), b"secret", page_settings={"archive_messages": 2})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://chat") as client:
        assert (await client.get("/settings.json")).json() == {"archive_messages": 2}
    archived: list[str] = []
    page.on("request", lambda request: archived.append(request.url) if "archive_messages" in request.url else None)
    may_be_told = asyncio.Event()

    async def tell(route: Route) -> None:
        await may_be_told.wait()
        await route.fulfill(json={"archive_messages": 1})

    await page.route("**/settings.json", tell)
    await page.reload()
    await say(page, A_FACT)
    await answers(page, 1)
    may_be_told.set()
    await nothing_is_kept(page)
    assert archived


async def test_a_reload_and_the_next_visit_show_the_conversation(visit: Visit):
    """By the address, and without one; then the browser keeps nothing of it any more."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_FILE)
    await answers(page, 1)
    await say(page, A_SEARCH)
    await answers(page, 2)
    before = await words(page)
    await page.reload()
    await answers(page, 2)
    assert await words(page) == before
    session = session_of(page)
    await page.close(run_before_unload=True)
    page = await visitor.come()
    await answers(page, 2)
    assert (session_of(page), await words(page)) == (session, before)
    await nothing_is_kept(page)
    assert len(await visitor.archived(page, 4)) == 4


async def test_a_crashed_tab_loses_nothing(visit: Visit):
    """Its process is killed, no hook runs; the next visit shows what was said, and archives nothing twice."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_FILE)
    await answers(page, 1)
    await crash(page)
    page = await visitor.come()
    await answers(page, 1)
    await nothing_is_kept(page)
    assert len(await visitor.archived(page, 2)) == 2


async def test_a_tab_that_dies_in_mid_answer_gets_the_answer_at_the_next_visit(visit: Visit):
    """The question is asked again under its id, and answered once."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_TOUR)
    await mid_answer(page)
    await crash(page)
    page = await visitor.come()
    await answers(page, 1)
    await say(page, A_FACT)
    await answers(page, 2)
    await page.close(run_before_unload=True)
    assert [message.sender for message in await visitor.archived(page, 4)] == ["user", "ai", "user", "ai"]


async def test_a_killed_browser_keeps_what_was_never_sent(chat_server: ChatServer):
    """SIGKILL to all of its processes while it is offline: what was typed is sent, in order, when it is back."""
    profile = Path(tempfile.mkdtemp(prefix="mc-profile-", dir=SCRATCH))
    async with async_playwright() as playwright:

        async def start() -> BrowserContext:
            return await playwright.chromium.launch_persistent_context(profile, **chromium_options())

        visitor = Visitor(await start(), chat_server)
        page = await visitor.come()
        await say(page, A_FACT)
        await answers(page, 1)
        await visitor.context.set_offline(True)
        await say(page, A_SEARCH)
        await say(page, A_FILE)
        await page.wait_for_function("() => document.querySelectorAll('[data-state=queued]').length === 2")
        await is_on_disk(page, A_SEARCH, A_FILE)
        cookie = (await visitor.context.cookies())[0].get("value", "")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(profile) in argument for argument in process.cmdline()):
                    process.kill()

        visitor = Visitor(await start(), chat_server)
        # Chromium takes half a minute to write cookies to disk; who has been here for longer keeps theirs
        await visitor.context.add_cookies([{"name": "web_chat_visitor", "value": cookie, "url": chat_server.url}])
        page = await visitor.come(f"#/{session_of(page)}")
        await answers(page, 3)
        await page.close(run_before_unload=True)
        messages = await visitor.archived(page, 6)
        assert [message.text for message in messages if message.sender == "user"] == [A_FACT, A_SEARCH, A_FILE]
        assert [message.sender for message in messages] == ["user", "ai"] * 3
        assert visitor.errors == []
        await visitor.context.close()
    shutil.rmtree(profile, ignore_errors=True)


async def test_what_is_written_offline_is_sent_in_order_when_back(visit: Visit):
    """It shows as waiting meanwhile; a new conversation can begin offline too, and survives a reload."""
    visitor = await visit()
    page = await visitor.come()
    await visitor.context.set_offline(True)
    await page.wait_for_selector("#connection[data-state=offline]")
    for text in (A_FACT, A_SEARCH, A_FILE):
        await say(page, text)
    # each new attempt shows for a moment as such
    await page.wait_for_function(
        "() => [...document.querySelectorAll('[data-state=queued]')]"
        ".filter(item => item.innerText.includes('Waiting to be sent')).length === 3"
    )
    assert [text for _, text in await words(page)] == [A_FACT, A_SEARCH, A_FILE]
    visitor.errors.clear()  # Chromium writes each request that fails to the console
    await visitor.context.set_offline(False)
    await answers(page, 3)
    assert [text for who, text in await words(page) if who == "user"] == [A_FACT, A_SEARCH, A_FILE]
    await page.close(run_before_unload=True)
    messages = await visitor.archived(page, 6)
    assert [message.text for message in messages if message.sender == "user"] == [A_FACT, A_SEARCH, A_FILE]
    assert [message.sender for message in messages] == ["user", "ai"] * 3


async def test_two_tabs_show_the_same_and_send_once(visit: Visit):
    """What one tab says and is told shows in the other, word by word; both at once get one answer each."""
    visitor = await visit()
    one = await visitor.come()
    await say(one, A_FACT)
    await answers(one, 1)
    other = await visitor.come(f"#/{session_of(one)}")
    await answers(other, 1)
    await say(one, A_TOUR)
    await mid_answer(other)
    await answers(other, 2)
    await say(one, A_SEARCH)
    await say(other, A_FACT)
    await answers(one, 4)
    await answers(other, 4)
    assert await words(one) == await words(other)
    await one.close(run_before_unload=True)
    await other.close(run_before_unload=True)
    messages = await visitor.archived(one, 8)
    assert sorted(message.text for message in messages if message.sender == "user") == sorted(
        [A_FACT, A_TOUR, A_SEARCH, A_FACT]
    )


async def test_a_tab_takes_over_what_another_one_was_sending(visit: Visit):
    """The tab with the running request dies; the one beside it asks again and shows the answer."""
    visitor = await visit()
    one = await visitor.come()
    await say(one, A_FACT)
    await answers(one, 1)
    other = await visitor.come(f"#/{session_of(one)}")
    await answers(other, 1)
    await say(one, A_TOUR)
    await mid_answer(other)
    await crash(one)
    await answers(other, 2)
    await other.close(run_before_unload=True)
    assert [message.sender for message in await visitor.archived(other, 4)] == ["user", "ai", "user", "ai"]


async def test_a_server_killed_in_mid_answer_answers_when_it_is_back(visit: Visit, chat_server: ChatServer):
    """The page waits and asks again by itself; what only the dead process had is archived from the browser."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_FACT)
    await answers(page, 1)
    await say(page, A_TOUR)
    await mid_answer(page)
    await chat_server.end(signal.SIGKILL)
    await page.wait_for_selector("#connection[data-state=connecting]")
    await page.wait_for_selector(".message.user[data-state=queued]")
    await chat_server.start()
    visitor.errors.clear()  # refused connections
    await answers(page, 2)
    await page.wait_for_selector("#connection[data-state=online]")
    await page.close(run_before_unload=True)
    messages = await visitor.archived(page, 4)
    assert [message.sender for message in messages] == ["user", "ai", "user", "ai"]
    assert [message.text for message in messages][::2] == [A_FACT, A_TOUR]
    visitor.errors.clear()


async def test_a_full_local_storage_loses_nothing(visit: Visit):
    """The other place that the browser has takes over, and a crash after that is survived."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_FACT)
    await answers(page, 1)
    await visitor.context.set_offline(True)
    await page.evaluate(
        "() => { for (let size = 1 << 22; size; size >>= 1) for (let i = 0; i < 9; i += 1)"
        " try { localStorage.setItem(`full/${size}/${i}`, 'x'.repeat(size)); } catch {} }"
    )
    await say(page, A_SEARCH)
    await page.wait_for_selector(".message.user[data-state=queued]")
    assert A_SEARCH not in await page.evaluate("() => JSON.stringify(localStorage)")
    await is_on_disk(page, A_SEARCH)
    await crash(page)
    await visitor.context.set_offline(False)
    page = await visitor.come(f"#/{session_of(page)}")
    await answers(page, 2)
    await page.close(run_before_unload=True)
    assert len(await visitor.archived(page, 4)) == 4
    visitor.errors.clear()


async def test_more_than_a_beacon_holds_is_archived_by_the_next_visit(visit: Visit):
    """Browsers take 64 kB of beacons; nothing is cut, nothing is sent twice."""
    visitor = await visit()
    page = await visitor.come()
    for place in range(3):
        await say(page, f"{A_FACT} {place} {'ä' * 20_000}")
        await answers(page, place + 1)
    await page.close(run_before_unload=True)
    page = await visitor.come()
    await answers(page, 3)
    await nothing_is_kept(page)
    assert [message.sender for message in await visitor.archived(page, 6)] == ["user", "ai"] * 3


async def test_a_stopped_answer_stays_as_far_as_it_got(visit: Visit):
    """Escape stops; what was written is kept as the answer, and the conversation goes on."""
    visitor = await visit()
    page = await visitor.come()
    await say(page, A_TOUR)
    await mid_answer(page)
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".message.ai[data-state=stopped]")
    so_far = await page.locator(".message.ai .text").inner_text()
    await say(page, A_FACT)
    await answers(page, 1)
    await page.reload()
    await answers(page, 2)
    assert (await words(page))[1] == ["ai", so_far]
    assert len(await visitor.archived(page, 4)) == 4


async def test_a_busy_server_is_asked_again_when_it_says_so(visit: Visit):
    """503 with Retry-After: the page says that the server is busy, waits, and gets its answer."""
    visitor = await visit()
    page = await visitor.come()
    problem = '{"type": "x", "title": "Busy", "status": 503, "detail": "too much to do"}'

    async def refuse(route: Route) -> None:
        headers = {"Retry-After": "1", "Content-Type": "application/json"}
        await route.fulfill(status=503, headers=headers, body=problem)

    await page.route("**/api/chat", refuse)
    await say(page, A_FACT)
    await page.wait_for_selector("#connection[data-state=busy]")
    await page.wait_for_selector(".message.user >> text=too much to do")
    await page.unroute("**/api/chat")
    await answers(page, 1)
    await page.wait_for_selector("#connection[data-state=online]")
    visitor.errors.clear()  # Chromium writes the 503 to the console


async def test_a_refused_message_can_be_tried_again_or_removed(visit: Visit):
    """The reason shows beside it; trying again sends it under the same id; a removed one stays away after a reload.

    That reload comes before the deletion is on disk: another tab keeps the database busy, which nobody has to wait for.
    """
    visitor = await visit()
    other = await visitor.come()
    page = await visitor.come()
    problem = '{"type": "x", "title": "No", "status": 500, "detail": "the agent fell over"}'
    await page.route("**/api/chat", lambda route: route.fulfill(status=500, body=problem), times=2)
    await say(page, A_FACT)
    await page.wait_for_selector(".message.user[data-state=failed] >> text=the agent fell over")
    await say(page, A_SEARCH)
    await page.wait_for_function("() => document.querySelectorAll('[data-state=failed]').length === 2")
    await other.evaluate(HOLD_DATABASE)
    await page.locator(".message", has_text=A_SEARCH).get_by_role("button", name="Remove").click()
    await page.reload()
    await page.wait_for_selector(".message.user[data-state=failed]")
    await other.evaluate("() => { window.letGo = true }")

    async def is_gone() -> bool:
        return A_SEARCH not in str(await page.evaluate(ON_DISK))

    await until(is_gone, "the removed message to leave the disk")
    await page.reload()
    await page.wait_for_selector(".message.user[data-state=failed]")
    assert [text for _, text in await words(page)] == [A_FACT]
    await page.get_by_role("button", name="Try again").click()
    await answers(page, 1)
    await page.close(run_before_unload=True)
    assert (await visitor.archived(page, 2))[0].text == A_FACT
    visitor.errors.clear()


async def test_two_browsers_see_nothing_of_each_other(visit: Visit):
    """Neither in the list nor by the address; a forged cookie makes a stranger."""
    one, other = await visit(), await visit()
    page = await one.come()
    await say(page, A_FACT)
    await answers(page, 1)
    await page.close(run_before_unload=True)
    await one.archived(page, 2)
    stranger = await other.come(f"#/{session_of(page)}")
    await stranger.wait_for_selector("#notice >> text=not here")
    assert await words(stranger) == []
    assert await stranger.locator(".session").count() == 0
    forged = f"{await one.user_id()}.0"
    await other.context.add_cookies([{"name": "web_chat_visitor", "value": forged, "url": one.server.url}])
    stranger = await other.come()
    assert await other.user_id() != await one.user_id()
    assert await stranger.locator(".session").count() == 0
    other.errors.clear()  # the 404


async def crash(page: Page) -> None:
    """Kill the process behind a page: none of its hooks run."""
    async with page.expect_event("crash"):
        with contextlib.suppress(Error):  # nobody is left to answer
            await page.goto("chrome://crash")
    await page.close()
