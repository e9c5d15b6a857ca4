"""Whole stories in a browser: what is stored opens and is forgotten, a chat lasts, people keep apart, agents change."""

import base64
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone

import pytest
from playwright.async_api import expect

from memory_context import AgentMemory, MemoryStore
from memory_context.store.items import NewItem

from ..model_service import model_service
from .conftest import ChainlitServer, Person

pytestmark = pytest.mark.asyncio(loop_scope="module")

Come = Callable[..., Awaitable[Person]]

SECRETARY = {
    "provider": "autogen_agentchat.agents.AssistantAgent",
    "config": {"name": "secretary", "system_message": "You keep notes."},
}


async def test_a_large_result_opens_by_its_reference_lasts_and_is_forgotten(
    come: Come, chainlit_server: ChainlitServer
) -> None:
    ada = await come(color_scheme="dark")
    page = ada.page
    await ada.log_in("ada", "wrong")
    await expect(page.get_by_text("check user name and password")).to_be_visible()
    await expect(page.get_by_text("credentialssignin")).not_to_be_visible()  # one error, not two
    await expect(page.locator("html.dark")).to_have_count(1)  # the theme of the system
    await ada.log_in("ada", "ada")
    await page.get_by_text("Read a large file").click()
    await ada.answered(1)

    # the step has the beginning of what the tool returned, and its reference opens the whole
    await page.get_by_role("button", name="context.py · read file", exact=True).click()
    chip = page.locator(".mc-chip").first
    await expect(chip).to_have_text(re.compile(r"^context\.py[\d,]+ tokens$"))
    await chip.click()
    content = page.locator(".mc-content")
    await expect(content).to_contain_text("MemoryContext: the drop-in context of an AutoGen agent")
    await expect(page.locator(".mc-pages")).to_contain_text("lines 1–300 of")
    await page.get_by_label("Find in this").fill("def for_subagent")
    await page.get_by_role("button", name="Find", exact=True).click()
    await expect(content).to_contain_text("def for_subagent")
    await expect(content).not_to_contain_text("the drop-in context")

    # what the model saw is explained
    await ada.show("view")
    await expect(page.locator(".mc-segments")).to_contain_text("placeholder")

    # settings hold at once: from now on a result is a reference at first sight
    await page.locator("#chat-settings-open-modal").click()
    await page.locator("#chat-settings").get_by_role("combobox").click()
    await page.get_by_role("option", name="as a reference only").click()
    await page.get_by_role("button", name="Confirm").click()
    await expect(page.get_by_text("Applied to this chat.")).to_be_visible()

    # after a restart of the server the chat is there, its references open, and it goes on with these settings
    address = page.url
    assert "/thread/" in address
    await page.goto("about:blank")
    await chainlit_server.stop()
    await chainlit_server.start()
    await page.goto(address)
    await ada.answered(1)
    await ada.say("read policy.py", 2)
    # it saw only a reference, and looked up what it needed
    await expect(page.get_by_role("button", name="retrieve memory")).to_have_count(2)
    await ada.show("view")
    await expect(page.locator(".mc-segments .mc-key")).to_have_count(2)  # also that of before the restart
    await ada.show("stored")
    items = page.locator(".mc-items li")
    await expect(items).to_have_count(2)

    # forgetting asks first, and then it is gone
    first = items.filter(has_text="context.py")
    await first.get_by_role("button", name="Forget").click()
    await first.get_by_role("button", name="Keep").click()
    await expect(items).to_have_count(2)
    await first.get_by_role("button", name="Forget").click()
    await first.get_by_role("button", name="Forget it").click()
    await expect(items).to_have_count(1)
    await expect(page.get_by_role("status").filter(has_text="forgotten")).to_have_text("1 item is forgotten.")
    await page.get_by_role("button", name="context.py · read file", exact=True).click()
    await page.locator(".mc-chip").first.click()
    await expect(page.locator(".mc-problem")).to_contain_text("was forgotten on")


async def test_notes_are_read_and_edited_in_the_panel(
    come: Come, chainlit_server: ChainlitServer, chainlit_database_url: str
) -> None:
    """Those that the agent writes; what it changed meanwhile is never overwritten."""
    ada = await come()
    page = ada.page
    await ada.log_in("ada", "ada")
    await ada.say("Hello.", 1)
    await ada.show("notes")
    field = page.locator(".mc-notes").first
    await expect(field).to_have_value("")
    agent = str(await field.get_attribute("id")).removeprefix("mc-notes-")
    await field.fill("# Work\nOrders is at db1.")
    await page.get_by_role("button", name="Save", exact=True).first.click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    async with MemoryStore(chainlit_database_url) as store:
        notes = AgentMemory(store, "ada", agent).notes
        assert await notes.read() == "# Work\nOrders is at db1."
        await notes.append("# Home")
        await field.fill("lost")
        await page.get_by_role("button", name="Save", exact=True).first.click()
        await expect(page.get_by_text("The agent changed its notes meanwhile")).to_be_visible()
        assert await notes.read() == "# Work\nOrders is at db1.\n\n# Home"


async def test_what_is_known_of_the_user_is_added_edited_confirmed_and_forgotten_in_the_panel(
    come: Come, chainlit_server: ChainlitServer, chainlit_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model says of the user is apart, and is data; of secrets there are names."""
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
    await ada.show("about")
    await expect(page.locator(".mc-secrets code")).to_have_text("DB_PASSWORD")
    await expect(panel).not_to_contain_text("tiger")
    await expect(claims.locator(".mc-item-words")).to_have_text(markup)
    await expect(claims).to_contain_text("kept by a model, not confirmed by the user · coder")

    await expect(known.filter(has_text="Lisbon").locator("q")).to_have_text("we moved to Lisbon, by the way")

    statement = page.get_by_label("A statement about you")
    await statement.fill("x" * 301)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator(".mc-problem")).to_contain_text("at most 300 are allowed")
    await statement.fill("I prefer tea.")
    await page.get_by_label("What it is").select_option("Preference")
    await page.get_by_role("button", name="Add", exact=True).click()
    tea = known.filter(has_text="tea")
    await expect(tea).to_contain_text("preference · entered or confirmed by you · since")
    await expect(statement).to_have_value("")

    await tea.get_by_role("button", name="Edit").click()
    await page.get_by_label("Edit the statement").fill("I prefer green tea.")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(tea.locator(".mc-item-words")).to_have_text("I prefer green tea.")
    await page.get_by_role("button", name="Earlier ones too").click()
    await expect(page.locator(".mc-earlier .mc-item-words")).to_have_text("I prefer tea.")
    await page.get_by_role("button", name="Earlier ones too").click()
    await expect(tea).to_have_count(1)

    await claims.get_by_role("button", name="Confirm").click()
    await expect(claims).to_have_count(0)
    await expect(known.filter(has_text="owns a boat")).to_contain_text("entered or confirmed by you")
    await tea.get_by_role("button", name="Forget").click()
    await tea.get_by_role("button", name="Keep").click()
    await tea.get_by_role("button", name="Forget").click()
    await tea.get_by_role("button", name="Forget it").click()
    await expect(tea).to_have_count(0)
    await page.get_by_role("button", name="Delete DB_PASSWORD").click()
    await expect(page.locator(".mc-secrets")).to_have_count(0)
    async with MemoryStore(chainlit_database_url) as store:
        memory = AgentMemory(store, "ada")
        assert markup in [one.content for one in await memory.user_memory()]
        assert "I prefer green tea." not in [one.content for one in await memory.user_memory()]
        assert await memory.unconfirmed() == []


async def test_people_see_nothing_of_each_other_and_only_operators_change_who_answers(
    come: Come, chainlit_server: ChainlitServer
) -> None:
    ada, grace = await come(), await come()
    await ada.log_in("ada", "ada")
    await ada.say("remember that the release is on Friday the 13th", 1)
    await ada.show("stored")
    item = ada.page.locator(".mc-items li").first
    await expect(item).to_contain_text("release is on Friday")
    await item.locator(".mc-item").click()
    key = await ada.page.locator(".mc-panel code").inner_text()

    await grace.log_in("grace", "grace")
    await expect(grace.page.get_by_text("No chats yet")).to_be_visible()
    await grace.show("stored")
    await grace.page.get_by_role("button", name="All my chats").click()
    await expect(grace.page.locator(".mc-empty")).to_contain_text("Nothing is stored of you yet")
    await grace.page.evaluate("key => window.postMessage({memory_context: {show: 'item', key}}, '*')", key)
    await expect(grace.page.locator(".mc-problem")).to_contain_text(f"No item '{key}' in this memory")
    await grace.show("agent")
    await expect(grace.page.locator(".mc-empty")).to_contain_text("Operators can change who answers")

    # a page of another origin gets no connection, whoever is logged in: Chainlit itself checks no WebSocket's origin
    foreign = {"Origin": ada.server.url.replace("127.0.0.1", "127.0.0.1.evil.example").rstrip("/")}
    answer = await ada.profile.request.get(f"{ada.server.url}ws/socket.io/?EIO=4&transport=polling", headers=foreign)
    assert answer.status == 403

    # who is no operator changes nothing by a request of their own, either
    for action, told in (
        ({"name": "Forget", "payload": {"key": key}}, {"forgotten": False}),
        ({"name": "Agent", "payload": {"agent": "coder"}}, "Only operators"),
        ({"name": "Check agent", "payload": {"json": "{}"}}, "Only operators"),
    ):
        response = await grace.act(**action)
        assert response == told or str(told) in response["error"]

    # an operator pastes an agent; a mistake is told with its place; the agent has heard what was said, and stays
    page = ada.page
    await ada.show("agent")
    await page.locator("#mc-json").fill('{"provider": "os.system", "config": {}}')
    await page.get_by_role("button", name="Check").click()
    await expect(page.locator(".mc-problem")).to_contain_text(
        "provider: 'os.system' is outside of the known namespaces"
    )
    await page.locator("#mc-json").fill(json.dumps(SECRETARY))
    await page.get_by_role("button", name="Check").click()
    await page.get_by_role("button", name="Go on with it").click()
    await expect(page.locator(".mc-done")).to_be_visible()
    await ada.say("What do you remember about the release?", 2)
    await expect(page.locator(".ai-message").last).to_contain_text("Friday the 13th")
    await page.reload()
    await ada.answered(2)
    await ada.show("agent")
    await expect(page.locator(".mc-panel")).to_contain_text("What was pasted answers: secretary.")
    await ada.show("view")
    await expect(page.locator(".mc-agent")).to_contain_text("secretary was sent")

    # a wrong key of the model is told in the service's words, also after a reload; trying again answers
    address = page.url
    await page.goto("about:blank")
    await chainlit_server.stop()
    async with model_service() as service:
        service.mode = "401"
        await chainlit_server.start(OPENAI_API_KEY="wrong", OPENAI_BASE_URL=service.url)
        await page.goto(address)
        await ada.answered(2)
        await page.locator("#chat-input").fill("hello")
        await page.locator("#chat-submit").click()
        await expect(page.get_by_text("The model's service answered 401: Incorrect API key provided")).to_be_visible()
        await page.reload()
        service.mode = "well"
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_text("Half an answer and the rest.")).to_be_visible()
        await expect(page.get_by_text("answered 401")).to_have_count(0)

        # a page loaded again in mid-answer goes on with it, and a second tab shows it too; the meter goes on
        service.may_go_on.clear()
        await page.locator("#chat-input").fill("And now do it like last time.")
        await page.locator("#chat-submit").click()
        half, whole = page.get_by_text("Half an", exact=True), page.get_by_text("Half an answer and the rest.")
        await expect(half).to_be_visible()
        await page.reload()
        await expect(half).to_be_visible()
        await expect(page.locator("#stop-button")).to_be_visible()
        service.may_go_on.set()
        await expect(whole).to_have_count(2)
        await expect(page.locator("#stop-button")).to_have_count(0)
        meter = page.locator(".mc-meter").last
        await expect(meter).to_contain_text("In 4 turns")
        await expect(meter).to_contain_text(re.compile(r"Light model, in none of these figures: \d+ calls? \("))
        await chainlit_server.stop()  # its model's service ends: this is the last story of the module
