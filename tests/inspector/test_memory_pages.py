"""The inspector's memory: one user's statements, items, messages, notes and jobs, and forgetting with consent."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest
import uvicorn
from autogen_core.models import AssistantMessage, UserMessage
from playwright.async_api import Page, async_playwright

from memory_context import MemoryContext, MemoryStore
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.notes import LongTermNotes
from memory_context.surfaces.inspector import inspector_app

from ..context.steps import add_step
from ..support.browser import chromium_options, nothing_serious
from ..support.serving import serving
from .conftest import inspector_of

REPORT = "\n".join(f"line {number}: the boiler reported {number * 7} bar" for number in range(4000))


async def lived(store: MemoryStore) -> str:
    """Let alice talk with an agent that stores a large result and learns; return the result's key."""
    context = MemoryContext("alice", "coder", "boilers", store)
    await context.add_message(UserMessage(content="I prefer metric units. Read the boiler log.", source="user"))
    await context.get_messages()
    await add_step(context, REPORT)
    await context.get_messages()
    await context.add_message(AssistantMessage(content="It is a log of pressures.", source="coder"))
    await context.close()
    await store.jobs.flush()
    (key,) = [one.key for one in await context.agent_memory.query(reader=None) if one.origin == "tool"]
    return key


async def test_statements_tell_both_times_and_lead_to_their_message(store: MemoryStore):
    await lived(store)
    async with inspector_of(store) as client:
        (one,) = (await client.get("memory")).json()["statements"]
        assert (one["statement"], one["session_id"], one["message"]) == ("I prefer metric units.", "boilers", 1)
        assert one["valid_from"] <= one["recorded_at"]
        place = (await client.get(f"sessions/{one['session_id']}/said?message={one['message']}")).json()
        assert (place["agent_id"], place["call"]) == ("coder", 1)
        assert one["quote"] in place["messages"][0]["text"]
        assert (await client.get("sessions/boilers/said?message=99")).status_code == 404


async def test_a_statement_is_edited_confirmed_and_forgotten(store: MemoryStore):
    memory = AgentMemory(store, "alice", "coder")
    await memory.store("The user lives in Porto.", type="user_fact", origin="agent")
    async with inspector_of(store) as client:
        (claim,) = (await client.get("memory")).json()["unconfirmed"]
        assert (await client.post(f"memory/{claim['key']}/confirm")).status_code == 200
        edited = await client.put(f"memory/{claim['key']}", json={"statement": "The user lives in Lisbon."})
        known = (await client.get("memory", params={"superseded": True})).json()["statements"]
        assert {one["statement"]: one["superseded_by"] for one in known} == {
            "The user lives in Lisbon.": None,
            "The user lives in Porto.": edited.json()["key"],
        }
        key = edited.json()["key"]
        going = (await client.get("going", params={"key": key})).json()["items"]
        assert [one["memory_key"] for one in going] == [key]
        asked = {"keys": [key], "agreed": [key]}
        assert (await client.post("forget", json=asked)).json() == {"forgotten": [key]}
        assert [one["statement"] for one in (await client.get("memory")).json()["statements"]] == []


async def test_nothing_is_forgotten_if_more_would_go_than_was_agreed_to(store: MemoryStore):
    """A twin with the same content, of another agent, goes with it."""
    ref = await AgentMemory(store, "alice", "coder", "s").store("the plan of the harbour")
    async with inspector_of(store) as client:
        agreed = [one["memory_key"] for one in (await client.get("going", params={"key": ref.key})).json()["items"]]
        assert agreed == [ref.key]
        twin = await AgentMemory(store, "alice", "writer", "t").store("the plan of the harbour")
        refused = await client.post("forget", json={"keys": [ref.key], "agreed": agreed})
        assert (refused.status_code, (await client.get(f"items/{ref.key}")).status_code) == (409, 200)
        agreed = [one["memory_key"] for one in (await client.get("going", params={"key": ref.key})).json()["items"]]
        assert sorted(agreed) == sorted([ref.key, twin.key])
        assert (await client.post("forget", json={"keys": [ref.key], "agreed": agreed})).status_code == 200
        gone = await client.get(f"items/{twin.key}")
        assert (gone.status_code, "was forgotten on" in gone.json()["detail"]) == (404, True)


async def test_items_are_found_by_text_type_session_and_origin(store: MemoryStore):
    key = await lived(store)
    await AgentMemory(store, "alice").store("A recipe for plum jam.", type="article", source="kitchen")
    await AgentMemory(store, "alice", "spy", "x", sharing="isolated").store("An aside about tides.", origin="agent")
    await AgentMemory(store, "bob").store("Bob's boiler.")
    await store.jobs.flush()
    async with inspector_of(store) as client:

        async def found(**params: str) -> list[str]:
            return [one["key"] for one in (await client.get("items", params=params)).json()["items"]]

        assert len(await found()) == 4
        assert [one.partition("_")[0] for one in await found(type="article")] == ["kitchen"]
        assert set(await found(session="boilers", agent="coder")) == {key}
        assert await found(origin="tool") == [key]
        hits = (await client.get("items", params={"q": "boiler pressure bar"})).json()["items"]
        assert hits[0]["key"] == key
        assert "bar" in hits[0]["passage"]
        private = (await client.get("items", params={"q": "tides"})).json()["items"][0]
        assert (private["is_private"], private["agent_id"]) == (True, "spy")


async def test_an_item_says_what_happened_to_it_and_what_refers_to_it(store: MemoryStore):
    """In any session: a second one opens it here."""
    key = await lived(store)
    other = MemoryContext("alice", "writer", "letters", store)
    await other.add_message(UserMessage(content=f"What does {key} say?", source="user"))
    await other.retrieve(key)
    await other.get_messages()
    await other.close()
    async with inspector_of(store) as client:
        known = (await client.get(f"items/{key}")).json()
        assert "boilers" in [one["session_id"] for one in known["sessions"]]
        assert ("retrieved", "letters") in [(one["kind"], one["session_id"]) for one in known["events"]]


async def test_half_a_surrogate_and_a_secret_can_be_shown(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_CONTEXT_SECRET_KEY", b64encode(bytes(32)).decode())
    memory = AgentMemory(store, "alice")
    ref = await memory.store("a half \ud800 and hunter2-hunter2")
    await memory.secrets.set("PASSWORD", "hunter2-hunter2")
    async with inspector_of(store) as client:
        page = (await client.get(f"items/{ref.key}/content")).json()
        assert page["text"] == "a half \ud800 and {{secret:PASSWORD}}"
        told = await client.get("secrets")
        assert ([one["name"] for one in told.json()["secrets"]], "hunter2" in told.text) == (["PASSWORD"], False)


async def test_what_was_said_is_found_and_a_conversation_is_deleted(store: MemoryStore):
    await lived(store)
    async with inspector_of(store) as client:
        newest = (await client.get("said")).json()["messages"]
        assert [(one["by"], one["message"]) for one in newest] == [("coder", 4), ("user", 1)]
        (hit, *_) = (await client.get("said", params={"q": "which units"})).json()["messages"]
        assert hit["session_id"] == "boilers"
        extent = (await client.get("sessions/boilers/extent")).json()
        assert (extent["items"], extent["message_count"]) == (1, 4)
        assert (await client.delete("sessions/boilers")).status_code == 204
        assert (await client.get("sessions/boilers/extent")).status_code == 404


async def test_notes_have_versions_and_undo(store: MemoryStore):
    notes = LongTermNotes(store, "alice", "coder")
    await notes.append("first")
    await notes.append("second")
    async with inspector_of(store) as client:
        assert [one["agent_id"] for one in (await client.get("notes")).json()["agents"]] == ["coder"]
        found = (await client.get("notes/coder")).json()
        written = await client.put("notes/coder", json={"notes": "mine", "version": found["version"]})
        assert written.json()["notes"] == "mine"
        late = await client.put("notes/coder", json={"notes": "late", "version": found["version"]})
        assert late.status_code == 412
        undone = (await client.post("notes/coder/undo", json={})).json()
        assert undone["notes"] == found["notes"] == "first\n\nsecond"
        first = (await client.post("notes/coder/undo", json={"version": 1})).json()
        assert (first["notes"], first["version"]) == ("first", 5)


async def test_dead_letters_are_tried_again_for_this_user_only(store: MemoryStore, database_url: str):
    with psycopg.connect(database_url, autocommit=True) as connection:
        for user in ("alice", "bob"):
            connection.execute(
                "INSERT INTO memory_context.jobs (user_id, kind, is_failed, last_error)"
                " VALUES (%s, 'of an application', true, 'ValueError: no')",
                [user],
            )
    async with inspector_of(store) as client:
        (failed,) = (await client.get("jobs")).json()["failed"]
        assert failed["error"] == "ValueError: no"
        assert (await client.post("jobs/retry")).json() == {"retried": 1}
        (kind,) = (await client.get("jobs")).json()["kinds"]
        assert (kind["waiting"], kind["failed"]) == (1, 0)
    async with inspector_of(store, "bob") as client:
        assert len((await client.get("jobs")).json()["failed"]) == 1


@pytest.mark.thorough
async def test_a_person_searches_edits_confirms_and_forgets_in_the_page(store: MemoryStore):
    """In a real Chromium, by what the page says; "why" leads to the message and to the call that read it."""
    key = await lived(store)
    memory = AgentMemory(store, "alice", "coder")
    await memory.store("The user lives in Porto.", type="user_fact", origin="agent")
    config = uvicorn.Config(inspector_app(store, "alice"), log_level="error")
    async with serving(config) as (_, port), a_page() as page:
        url = f"http://127.0.0.1:{port}/inspector/"
        await page.goto(f"{url}#/memory")
        await page.get_by_text("The user lives in Porto.").wait_for()
        await nothing_serious(page)
        claim = page.get_by_role("listitem").filter(has_text="The user lives in Porto.")
        await claim.get_by_role("button", name="Confirm").click()
        await claim.get_by_text("to be confirmed").wait_for(state="detached")
        await claim.get_by_role("button", name="Edit").click()
        await page.get_by_label("The statement as it holds from now on").fill("The user lives in Lisbon.")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("The user lives in Lisbon.").wait_for()
        await page.get_by_label("State", exact=True).select_option("all")
        await page.locator(".replaced", has_text="The user lives in Porto.").wait_for()

        await page.get_by_label("Search", exact=True).fill("metric")
        (row,) = await page.get_by_role("list", name="Statements").get_by_role("listitem").all()
        await row.get_by_role("link", name="Why do you know this?").click()
        await page.get_by_role("heading", name="Message 1").wait_for()
        await nothing_serious(page)
        assert await page.locator("mark").inner_text() == "I prefer metric units."
        assert await page.get_by_role("link", name="call 1").get_attribute("href") == "#/session/boilers/coder?call=1"

        await page.goto(f"{url}#/items")
        await page.get_by_label("Search", exact=True).fill("boiler pressure")
        found = page.get_by_role("list", name="Items").get_by_role("listitem").filter(has_text=key)
        await found.get_by_text("the boiler reported").first.wait_for()
        await found.get_by_role("button", name="Forget").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("will show [forgotten] in its place").wait_for()
        await nothing_serious(page)
        await dialog.get_by_role("button", name="Cancel").click()
        assert await memory.retrieve(key) is not None
        await found.get_by_role("button", name="Forget").click()
        await dialog.get_by_role("button", name="Forget").click()
        await found.wait_for(state="detached")
        assert await memory.retrieve(key) is None


@asynccontextmanager
async def a_page() -> AsyncGenerator[Page, None]:
    """Give a page of a Chromium; at the end it has written no error to its console."""
    errors: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium_options())
        page = await browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.extend([said.text] if said.type == "error" else []))
        yield page
        await browser.close()
    assert errors == []


async def test_no_route_shows_another_users_memory(store: MemoryStore):
    key = await lived(store)
    async with inspector_of(store, "bob") as client:
        for path in (f"items/{key}", f"items/{key}/content", f"going?key={key}", "sessions/boilers/said?message=1"):
            assert (await client.get(path)).status_code == 404, path
        for path in ("memory", "items", "said", "notes", "items?q=boiler", "said?q=boiler"):
            found = (await client.get(path)).json()
            assert not any(one for name, one in found.items() if name != "next"), (path, found)
        assert (await client.post("forget", json={"keys": [key], "agreed": [key]})).status_code == 409
        assert (await client.delete("sessions/boilers")).status_code == 404
