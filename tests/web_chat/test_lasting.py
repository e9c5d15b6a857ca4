"""Conversations in a real browser: whatever dies, each message is archived exactly once, in order."""

import asyncio
import contextlib
import json
import signal

import pytest
from playwright.async_api import Error, Page, Route, async_playwright

from ..support.browser import chromium_options
from .conftest import ChatServer, Visit, Visitor, answers, begin, mid_answer, say, session_of, until, words

pytestmark = pytest.mark.asyncio(loop_scope="module")

A_FILE = "Read store/pool.py and show me how a connection is opened"
A_TOUR = "Give me a tour: which parts does the package have?"
A_SLOW_TOUR = "Give me a tour, slowly: which parts does the package have?"  # several seconds: time to stop it
A_FACT = "Remember that the release is on Friday"
A_SEARCH = "Where is StoreUnavailableError raised?"
KEPT = "() => Object.keys(localStorage).filter(key => key.startsWith('web-chat/pending/')).length"

# the answer is made to its end, and the page reads one word of it until it stops
HELD_BACK = """() => {
  const fetched = window.fetch;
  window.fetch = async (address, options) => {
    const response = await fetched(address, options);
    if (!address.endsWith("/api/chat")) return response;
    const events = (await response.text()).split(/(?=event: )/);
    const first = events.slice(0, events.findIndex(one => one.startsWith("event: delta")) + 1).join("");
    return new Response(new ReadableStream({ start(body) {
      body.enqueue(new TextEncoder().encode(first));
      options.signal.addEventListener("abort", () => body.error(options.signal.reason));
    } }));
  };
}"""


async def nothing_is_kept(page: Page) -> None:
    """Wait until the browser has forgotten everything, since the server said that it is durable."""

    async def is_empty() -> bool:
        return await page.evaluate(KEPT) == 0

    await until(is_empty, "the browser to forget what is durable")


async def crash(page: Page) -> None:
    """Kill the process behind a page: none of its hooks run."""
    async with page.expect_event("crash"):
        with contextlib.suppress(Error):  # nobody is left to answer
            await page.goto("chrome://crash")
    await page.close()


async def test_a_reload_and_the_next_visit_show_the_conversation(visit: Visit):
    """By the address, and without one; the closed tab has archived everything, and the browser keeps nothing of it."""
    visitor, page = await begin(visit, A_FILE)
    await say(page, A_SEARCH)
    await answers(page, 2)
    before = await words(page)
    await page.reload()
    await answers(page, 2)
    assert await words(page) == before
    session = session_of(page)
    await page.close(run_before_unload=True)
    assert [one.sender for one in await visitor.archived(page, 4)] == ["user", "ai"] * 2
    page = await visitor.come()
    await answers(page, 2)
    assert (session_of(page), await words(page)) == (session, before)
    await nothing_is_kept(page)
    assert len(await visitor.archived(page, 4)) == 4


async def test_over_plain_http_from_another_machine_everything_works(chat_server: ChatServer):
    """A page that is no secure context has no Web Locks, no random UUID, no clipboard: it does without."""
    options = chromium_options()
    options["args"] = [*options["args"], "--host-resolver-rules=MAP chat.test 127.0.0.1"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        visitor = Visitor(await browser.new_context(reduced_motion="reduce"), chat_server, host="chat.test")
        page = await visitor.come()
        has = await page.evaluate("() => [isSecureContext, 'randomUUID' in crypto, 'locks' in navigator]")
        assert has == [False, False, False]
        await say(page, A_FILE)
        await answers(page, 1)
        code = await page.locator(".message.ai pre code").inner_text()
        await page.get_by_role("button", name="Copy").click()
        await page.get_by_role("button", name="Copied").wait_for()
        await page.focus("#text")
        await page.keyboard.press("Control+V")
        assert await page.input_value("#text") == code
        await say(page, A_SLOW_TOUR)
        await mid_answer(page)
        await page.get_by_role("button", name="Stop answering").click()
        await page.wait_for_selector(".message.ai[data-state=stopped]")
        await nothing_is_kept(page)  # else the other tab shows it as stopped, too, and not as sent
        other = await visitor.come(f"#/{session_of(page)}")
        await say(other, A_FACT)
        await answers(other, 3)
        await answers(page, 2)
        await page.close(run_before_unload=True)
        await other.close(run_before_unload=True)
        assert len(await visitor.archived(other, 6)) == 6
        assert visitor.errors == []
        await browser.close()


async def test_a_tab_that_closes_before_its_first_answer_has_archived_the_question(visit: Visit):
    """The page makes the session's id itself, so that it need not wait for the server's; the next visit asks again."""
    visitor, page = await begin(visit)
    await page.route("**/api/chat", lambda route: route.abort())
    await say(page, A_FACT)
    await page.wait_for_selector("[data-state=queued]")
    await page.close(run_before_unload=True)
    visitor.errors.clear()  # Chromium writes each request that fails to the console
    user_id = await visitor.user_id()

    async def begun() -> list[str]:
        sessions = await visitor.server.store.conversations.sessions(user_id, only_chats=True)
        return [f"{one.title}: {one.chat_count}" for one in sessions]

    assert await until(begun, "a session of the question") == [f"{A_FACT}: 1"]
    page = await visitor.come()
    await answers(page, 1)
    await page.close(run_before_unload=True)
    assert [message.sender for message in await visitor.archived(page, 2)] == ["user", "ai"]


async def test_a_tab_that_dies_in_mid_answer_gets_the_answer_at_the_next_visit(visit: Visit):
    """No hook runs. The question is asked again under its id, and answered once."""
    visitor, page = await begin(visit)
    await say(page, A_SLOW_TOUR)
    await mid_answer(page)
    await crash(page)
    page = await visitor.come()
    await answers(page, 1)
    await say(page, A_FACT)
    await answers(page, 2)
    await page.close(run_before_unload=True)
    assert [message.sender for message in await visitor.archived(page, 4)] == ["user", "ai", "user", "ai"]


async def test_what_is_written_offline_is_sent_in_order_when_back(visit: Visit):
    """A conversation can begin offline; what waits shows as such, and survives a crash of the tab."""
    visitor, page = await begin(visit)
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
    await crash(page)
    await visitor.context.set_offline(False)
    page = await visitor.come()
    await answers(page, 3)
    assert [text for who, text in await words(page) if who == "user"] == [A_FACT, A_SEARCH, A_FILE]
    await page.close(run_before_unload=True)
    messages = await visitor.archived(page, 6)
    assert [message.text for message in messages if message.sender == "user"] == [A_FACT, A_SEARCH, A_FILE]
    assert [message.sender for message in messages] == ["user", "ai"] * 3
    visitor.errors.clear()  # 404: the server had not heard of the conversation when it was opened again


async def test_two_tabs_show_the_same_and_send_once(visit: Visit):
    """What one tab says and is told shows in the other; both at once get one answer each."""
    visitor = await visit()
    one = await visitor.come()
    await say(one, A_FACT)
    await answers(one, 1)
    other = await visitor.come(f"#/{session_of(one)}")
    await answers(other, 1)
    await say(one, A_TOUR)
    await answers(other, 2)
    await say(one, A_SEARCH)
    await say(other, A_FACT)
    await answers(one, 4)
    await answers(other, 4)
    assert await words(one) == await words(other)
    await one.close(run_before_unload=True)
    await other.close(run_before_unload=True)
    messages = await visitor.archived(one, 8)
    asked = sorted(message.text for message in messages if message.sender == "user")
    assert asked == sorted([A_FACT, A_TOUR, A_SEARCH, A_FACT])


async def test_a_server_killed_in_mid_answer_answers_when_it_is_back(visit: Visit, chat_server: ChatServer):
    """The page waits and asks again by itself; what only the dead process had is archived from the browser."""
    visitor, page = await begin(visit, A_FACT)
    await say(page, A_SLOW_TOUR)
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
    assert [message.text for message in messages][::2] == [A_FACT, A_SLOW_TOUR]
    visitor.errors.clear()


async def test_what_the_page_of_before_had_kept_is_sent(visit: Visit):
    """Under the name that its conversation had in the browser; what it was sending is asked again."""
    visitor, page = await begin(visit)
    message = {"id": "m1", "text": A_FACT, "sender": "user", "timestamp": "2020-01-01T00:00:00.000Z"}
    record = {"conversation": "new-1", "message": message, "state": "sending", "note": "", "wasSent": True, "at": 1}
    put = "record => localStorage.setItem('web-chat/pending/new-1/m1', record)"
    await page.evaluate(put, json.dumps(record | {"isStored": False}))
    page = await visitor.come("#/new-1")
    await answers(page, 1)
    assert [who for who, _ in await words(page)] == ["user", "ai"]
    # whoever asks for it first learns that the server has never heard of it; the other tab may have sent it by then
    assert all("404" in one for one in visitor.errors), visitor.errors
    visitor.errors.clear()


async def test_a_new_conversation_is_not_asked_for_before_the_server_has_it(visit: Visit):
    """Whoever looks at another window until the first answer begins finds no error in the console."""
    _, page = await begin(visit)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    async def slowly(route: Route) -> None:
        await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
        await route.continue_()

    await page.route("**/api/chat", slowly)
    await say(page, A_FACT)
    await answers(page, 1)
    assert not any("/messages" in url for url in asked)
    async with page.expect_request("**/messages?*"):
        await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")


async def test_a_stopped_answer_stays_as_far_as_it_got(visit: Visit):
    """Escape stops; what was written is kept as the answer, and the conversation goes on."""
    visitor, page = await begin(visit)
    await say(page, A_SLOW_TOUR)
    await mid_answer(page)
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".message.ai[data-state=stopped]")
    so_far = await page.locator(".message.ai .text").inner_text()
    await say(page, A_FACT)
    await answers(page, 1)
    await page.reload()
    await answers(page, 2)
    assert (await words(page))[1] == ["ai", so_far.strip()]
    assert len(await visitor.archived(page, 4)) == 4


async def test_an_answer_that_was_finished_when_it_is_stopped_stands_there_once(visit: Visit):
    """The server was faster than the page: the whole answer stays."""
    visitor, page = await begin(visit)
    await page.evaluate(HELD_BACK)
    await say(page, A_TOUR)
    await mid_answer(page)
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".message.ai[data-state=stopped]")
    assert await page.locator(".message.ai .text").inner_text() == "The"
    await nothing_is_kept(page)
    await page.reload()
    (answer,) = await answers(page, 1)
    assert "And at the top" in answer
    assert len(await visitor.archived(page, 2)) == 2


async def test_a_refused_message_can_be_tried_again_or_removed(visit: Visit):
    """A busy server is asked again when it says so; the reason of others shows, also after a reload."""
    visitor, page = await begin(visit)
    busy, failed = ({"body": f'{{"detail": "{told}"}}'} for told in ("too much to do", "the agent fell over"))
    headers = {"Retry-After": "3", "Content-Type": "application/json"}
    await page.route("**/api/chat", lambda route: route.fulfill(status=500, **failed), times=2)
    await page.route("**/api/chat", lambda route: route.fulfill(status=503, headers=headers, **busy), times=1)
    await say(page, A_FACT)
    shown = (".message.user >> text=too much to do", "#connection[data-state=busy]")
    await asyncio.gather(*map(page.wait_for_selector, shown))
    await page.wait_for_selector(".message.user[data-state=failed] >> text=the agent fell over")
    await say(page, A_SEARCH)
    await page.wait_for_function("() => document.querySelectorAll('[data-state=failed]').length === 2")
    await page.locator(".message", has_text=A_SEARCH).get_by_role("button", name="Remove").click()
    await page.reload()
    await page.wait_for_selector(".message.user[data-state=failed] >> text=the agent fell over")
    assert [text for _, text in await words(page)] == [A_FACT]
    await page.get_by_role("button", name="Try again").click()
    await answers(page, 1)
    await page.close(run_before_unload=True)
    assert (await visitor.archived(page, 2))[0].text == A_FACT
    visitor.errors.clear()
