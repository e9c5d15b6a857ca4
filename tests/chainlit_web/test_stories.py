"""Whole stories in a browser: what a person does with the application, from the login on."""

import base64
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone

import pytest
from playwright.async_api import expect

from memory_context import AgentMemory, MemoryStore
from memory_context.store.items import NewItem

from ..model_service import ModelService
from ..support.waiting import until
from .conftest import SECRETARY, ChainlitServer, Person

pytestmark = pytest.mark.asyncio(loop_scope="module")

Come = Callable[..., Awaitable[Person]]


async def test_a_large_result_opens_by_its_reference_lasts_and_is_forgotten(
    come: Come, chainlit_server: ChainlitServer
) -> None:
    ada = await come(color_scheme="dark")
    page = ada.page
    await ada.log_in("ada", "wrong")
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.locator(".mc-hint")).to_contain_text("ada / ada (operator)")
    await expect(page.locator("html.dark")).to_have_count(1)  # the theme of the system
    await ada.log_in("ada", "ada")
    await page.get_by_text("Read a large file").click()
    await ada.answered(1)

    # the step has the beginning of the tool's result, and its reference opens the whole
    await page.get_by_role("button", name="read file: context.py").click()
    reference = page.locator("a[href^='#memory/read_file']").first
    await expect(reference).to_have_text(re.compile(r"^context\.py, .* · [\d,]+ tokens$"))
    content = page.locator(".mc-content")
    await ada.click_for(reference, content)
    await expect(content).to_contain_text("MemoryContext: the drop-in context of an AutoGen agent")
    await expect(page.locator(".mc-pages")).to_contain_text("lines 1–300 of")
    await page.get_by_role("button", name="After").click()
    await expect(page.locator(".mc-pages")).to_contain_text("lines 301–")
    await expect(content).not_to_contain_text("the drop-in context")

    # what the model saw is explained
    await ada.show("What the model saw")
    await expect(page.locator(".mc-view")).to_contain_text("placeholder")
    await expect(page.locator(".mc-panel")).to_contain_text(re.compile(r"reader was sent [\d,]+ tokens"))
    async with page.expect_popup() as opened:
        await page.get_by_role("link", name="Every call, word for word").click()
    inspector = await opened.value
    await expect(inspector.get_by_text("Byte for byte what was handed out")).to_be_visible()
    await inspector.close()

    # after a restart of the server the chat is there, its references open, and it goes on
    address = page.url
    assert "/thread/" in address
    await page.goto("about:blank")
    await chainlit_server.stop()
    await chainlit_server.start()
    await page.goto(address)
    await ada.answered(1)
    await ada.say("read policy.py", 2)
    await ada.show("What the model saw")
    await expect(page.locator(".mc-view .mc-link").first).to_be_visible()
    await ada.show("Stored")
    items = page.locator(".mc-items li")
    await expect(items).to_have_count(2)
    await items.filter(has_text="context.py").get_by_role("button", name="Forget").click()
    await expect(items).to_have_count(1)
    await page.get_by_role("button", name="read file: context.py").click()
    await ada.click_for(page.locator("a[href^='#memory/read_file']").first, page.locator(".mc-problem"))
    await expect(page.locator(".mc-problem")).to_contain_text("was forgotten on")


async def test_memory_of_the_user_is_added_edited_confirmed_and_forgotten_in_the_panel(
    come: Come, chainlit_server: ChainlitServer, chainlit_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's claims are apart, and are data; of secrets there are names; notes of an agent are never overwritten."""
    monkeypatch.setenv("MEMORY_CONTEXT_SECRET_KEY", base64.b64encode(bytes(32)).decode())
    markup = "<img src=x onerror='throw 1'> owns a boat."
    async with MemoryStore(chainlit_database_url) as store:
        await AgentMemory(store, "ada", "coder", "old").store(markup, type="user_fact", origin="agent")
        quote = {"quote": "we moved to Lisbon, by the way"}
        said = NewItem(
            "Lives in Lisbon.", "", 4, "user_fact", "s", origin="user_words", metadata=quote, key="user_fact_lisbon"
        )
        await store.statements.insert_statement("ada", said, datetime.now(timezone.utc))
        await AgentMemory(store, "ada").secrets.set("DB_PASSWORD", "tiger-in-the-tank")
    ada = await come()
    page, panel = ada.page, ada.page.locator(".mc-panel")
    known, claims = page.locator(".mc-known li"), page.locator(".mc-claims li")
    await ada.log_in("ada", "ada")
    await ada.say("Hello.", 1)
    await ada.show("Memory")
    await expect(page.locator(".mc-secrets code")).to_have_text("DB_PASSWORD")
    await expect(panel).not_to_contain_text("tiger")
    await expect(claims.locator(".mc-text")).to_have_text(markup)
    await expect(claims).to_contain_text("kept by a model, not confirmed by the user · coder")
    await expect(known.filter(has_text="Lisbon").locator("q")).to_have_text("we moved to Lisbon, by the way")

    statement = page.get_by_label("A statement about you")
    await statement.fill("x" * 301)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator(".mc-problem")).to_contain_text("at most 300 are allowed")
    await statement.fill("I prefer tea.")
    await page.get_by_role("button", name="Add", exact=True).click()
    tea = known.filter(has_text="entered or confirmed by you")
    await expect(tea.locator(".mc-text")).to_have_text("I prefer tea.")
    await expect(statement).to_have_value("")
    await tea.get_by_role("button", name="Edit").click()
    await page.get_by_label("Edit", exact=True).fill("I prefer green tea.")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(tea.locator(".mc-text")).to_have_text("I prefer green tea.")
    await tea.get_by_role("button", name="Forget").click()
    await expect(tea).to_have_count(0)
    await claims.get_by_role("button", name="Confirm").click()
    await expect(claims).to_have_count(0)
    await expect(known.filter(has_text="owns a boat")).to_contain_text("entered or confirmed by you")
    await page.get_by_role("button", name="Delete DB_PASSWORD").click()
    await expect(page.locator(".mc-secrets li")).to_have_count(0)

    notes, save = page.get_by_label("Notes of reader"), page.get_by_role("button", name="Save the notes of reader")
    await notes.fill("# Work\nOrders is at db1.")
    async with page.expect_response("**/project/action"):  # the panel is read anew before it ends
        await save.click()
    async with MemoryStore(chainlit_database_url) as store:
        kept = AgentMemory(store, "ada", "reader").notes
        await expect(notes).to_have_value("# Work\nOrders is at db1.")
        await until(kept.read, "the notes are saved")
        await kept.append("# Home")
        await notes.fill("lost")
        await save.click()
        await expect(page.get_by_text("The agent changed its notes meanwhile")).to_be_visible()
        assert await kept.read() == "# Work\nOrders is at db1.\n\n# Home"
        statements = [one.content for one in await AgentMemory(store, "ada").user_memory()]
        assert sorted(statements) == [markup, "Lives in Lisbon."]


async def test_people_keep_apart_and_an_operator_builds_an_agent(come: Come, chainlit_server: ChainlitServer) -> None:
    ada, grace = await come(), await come()
    await ada.log_in("ada", "ada")
    await ada.say("remember that the release is on Friday the 13th", 1)
    await ada.show("Stored")
    await ada.page.locator(".mc-items li").first.get_by_role("button").first.click()
    key = await ada.page.locator(".mc-panel code").inner_text()

    await grace.log_in("grace", "grace")
    await expect(grace.page.locator("#chat-input")).to_be_visible()
    await grace.show("Stored")
    await grace.page.get_by_label("in all my chats").click()
    await expect(grace.page.locator(".mc-panel")).to_contain_text("Nothing is stored here")
    await grace.page.evaluate("key => window.postMessage({memory_context: {show: 'item', key}}, '*')", key)
    await expect(grace.page.locator(".mc-problem")).to_contain_text(f"No item '{key}' in this memory")
    await grace.show("Agent")
    await expect(grace.page.locator(".mc-panel")).to_contain_text("Operators can change who answers")
    for action, told in (
        ({"name": "Memory", "payload": {"does": "forget", "key": key}}, f"no item '{key}' in this memory"),
        ({"name": "Agent", "payload": {"json": json.dumps(SECRETARY), "use": True}}, "Only operators"),
    ):
        assert told in (await grace.act(**action))["error"]

    # an operator pastes an agent; a mistake is told with its place; the agent has heard what was said, and stays
    page = ada.page
    await ada.show("Agent")
    await page.locator("#mc-json").fill('{"provider": "os.system", "config": {}}')
    await page.get_by_role("button", name="Check").click()
    await expect(page.locator(".mc-problem")).to_contain_text("'os.system' is outside of the known namespaces")
    await page.locator("#mc-json").fill(json.dumps(SECRETARY))
    await page.get_by_role("button", name="Check").click()
    await page.get_by_role("button", name="Go on with it").click()
    await expect(page.locator(".mc-panel")).to_contain_text("A pasted agent answers: secretary.")
    await ada.say("What do you remember about the release?", 2)
    await expect(ada.answers.last).to_contain_text("Friday the 13th")
    await page.reload()
    await ada.answered(2)
    await ada.show("Agent")
    await expect(page.locator(".mc-panel")).to_contain_text("A pasted agent answers: secretary.")
    await page.get_by_role("button", name="Go back to the reader").click()
    await expect(page.locator(".mc-panel")).to_contain_text("The reader of the code answers.")


async def test_a_deleted_chat_is_gone_with_its_memory(
    come: Come, chainlit_server: ChainlitServer, chainlit_database_url: str
) -> None:
    """Also while it is live, and open in a page."""
    eve = await come()
    page = eve.page
    await eve.log_in("grace", "grace")
    await eve.say("remember that the key is under the mat", 1)
    await page.wait_for_url("**/thread/*")
    thread = page.url.rpartition("/")[2]
    answer = await eve.profile.request.delete(f"{eve.server.url}project/thread", data={"threadId": thread})
    assert answer.ok
    await eve.write("who is still there?")
    await expect(page.get_by_text("This chat was deleted; begin a new one.")).to_be_visible()
    async with MemoryStore(chainlit_database_url) as store:
        assert await store.conversations.session("grace", thread) is None


# --- with a model that waits, and fails


async def test_an_answer_is_stopped_and_a_message_edited(
    come: Come, chainlit_server: ChainlitServer, service: ModelService
) -> None:
    """The agent goes back to before the edited message; the chat goes on after both."""
    ada = await come()
    page = ada.page
    await ada.log_in("ada", "ada")
    service.may_go_on.clear()
    await ada.write("the first question")
    await expect(page.get_by_text("Half an", exact=True)).to_be_visible()
    await page.locator("#stop-button").click()
    await expect(page.get_by_text("Task manually stopped.")).to_be_visible()
    await expect(page.locator("#stop-button")).to_have_count(0)
    service.may_go_on.set()
    await ada.write("the second question")
    await expect(page.get_by_text("Half an answer and the rest.")).to_have_count(1)
    await ada.show("What the model saw")
    await expect(page.locator(".mc-view tr").filter(has_text="user text")).to_have_count(2)

    for words in ("in a live chat", "in a chat that was loaded again"):
        await page.get_by_text("the second question").hover()
        await page.locator(".edit-message").last.click()
        await page.locator("#edit-chat-input").fill(f"the second question {words}")
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.get_by_text(f"the second question {words}")).to_have_count(1)
        await expect(page.get_by_text("Half an answer and the rest.")).to_have_count(1)
        await expect(page.locator("#stop-button")).to_have_count(0)
        await ada.show("What the model saw")
        await expect(page.locator(".mc-view tr").filter(has_text="user text")).to_have_count(2)
        await page.reload()
        await expect(page.get_by_text("Half an answer and the rest.")).to_have_count(1)


async def test_a_page_loaded_again_in_mid_answer_shows_it_to_its_end(
    come: Come, chainlit_server: ChainlitServer, service: ModelService
) -> None:
    ada = await come()
    page = ada.page
    await ada.log_in("ada", "ada")
    service.may_go_on.clear()
    await ada.write("Tell me something.")
    half, whole = page.get_by_text("Half an", exact=True), page.get_by_text("Half an answer and the rest.")
    await expect(half).to_be_visible()
    await page.reload()
    await expect(half).to_be_visible()
    await expect(page.locator("#stop-button")).to_be_visible()
    service.may_go_on.set()
    await expect(whole).to_have_count(1)
    await expect(page.locator("#stop-button")).to_have_count(0)
    await ada.write("And once more.")
    await expect(whole).to_have_count(2)


async def test_a_failure_is_told_in_the_services_words(
    come: Come, chainlit_server: ChainlitServer, service: ModelService
) -> None:
    ada = await come()
    await ada.log_in("ada", "ada")
    service.mode = "401"
    await ada.write("hello")
    await expect(ada.page.get_by_text("The model's service answered 401: Incorrect API key provided")).to_be_visible()
    service.mode = "well"
    await ada.write("hello again")
    await expect(ada.page.get_by_text("Half an answer and the rest.")).to_be_visible()
