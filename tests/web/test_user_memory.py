"""User memory over HTTP: listed, added, edited, confirmed and forgotten by the authenticated user alone."""

import base64
from datetime import datetime, timezone

import pytest

from memory_context import AgentMemory, MemoryStore
from tests.support.attacks import PAYLOADS

from .conftest import Client, message

MEMORY = "/api/chat/memory"
SECRETS = "/api/chat/secrets"


async def test_user_lists_adds_edits_confirms_and_forgets_statements(client: Client, store: MemoryStore):
    added = await client.post(MEMORY, json={"statement": "I live in Porto.", "type": "user_fact"})
    key = added.json()["key"]
    claim = await AgentMemory(store, "alice", "coder").store("I like tea.", type="user_preference", origin="agent")
    page = (await client.get(MEMORY)).json()
    assert [(one["key"], one["origin"], one["confirmed_by"]) for one in page["statements"]] == [
        (key, "user_edit", "alice")
    ]
    assert [(one["key"], one["statement"], one["origin"]) for one in page["unconfirmed"]] == [
        (claim.key, "I like tea.", "agent")
    ]
    assert (await client.post(f"{MEMORY}/{claim.key}/confirm")).status_code == 200
    edited = (await client.put(f"{MEMORY}/{key}", json={"statement": "I live in Lisbon."})).json()["key"]
    page = (await client.get(MEMORY)).json()
    assert {one["statement"] for one in page["statements"]} == {"I live in Lisbon.", "I like tea."}
    assert page["unconfirmed"] == []
    page = (await client.get(MEMORY, params={"superseded": True})).json()
    today = datetime.now(timezone.utc)
    for as_of in (f"{today:%Y-%m-%d}", today.isoformat()):
        held = (await client.get(MEMORY, params={"as_of": as_of})).json()["statements"]
        assert "I live in Lisbon." in {one["statement"] for one in held}
    (former,) = [one for one in page["statements"] if one["key"] == key]
    assert (former["superseded_by"], former["confirmed_by"]) == (edited, "alice")
    assert (await client.delete(f"{MEMORY}/{edited}")).status_code == 204
    page = (await client.get(MEMORY)).json()
    assert [one["statement"] for one in page["statements"]] == ["I like tea."]


async def test_unusable_requests_say_what_to_do(client: Client, store: MemoryStore):
    other = await AgentMemory(store, "alice").store("text", type="custom")
    for key in ("nothing_1", other.key):
        for response in (
            await client.post(f"{MEMORY}/{key}/confirm"),
            await client.put(f"{MEMORY}/{key}", json={"statement": "x"}),
            await client.delete(f"{MEMORY}/{key}"),
        ):
            assert (response.status_code, bool(response.json()["detail"])) == (404, True)
    for statement in (" ", "x" * 301, "my token is ghp_16C7e42F292c6912E7710c838347Ae178B4a"):
        assert (await client.post(MEMORY, json={"statement": statement})).status_code == 422


async def test_names_of_secrets_are_listed_and_deleted_and_values_never_shown(
    client: Client, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_CONTEXT_SECRET_KEY", base64.b64encode(bytes(32)).decode())
    await AgentMemory(store, "alice").secrets.set("API.TOKEN", "tiger-in-the-tank")
    listed = await client.get(SECRETS)
    assert [(one["name"], one["has_value"]) for one in listed.json()["secrets"]] == [("API.TOKEN", True)]
    assert "tiger" not in listed.text
    bob = client.as_user("bob")
    assert (await bob.get(SECRETS)).json() == {"secrets": []}
    for response in (await bob.delete(f"{SECRETS}/API.TOKEN"), await client.delete(f"{SECRETS}/OTHER")):
        assert (response.status_code, bool(response.json()["detail"])) == (404, True)
    assert (await client.delete(f"{SECRETS}/API.TOKEN")).status_code == 204
    assert (await client.get(SECRETS)).json() == {"secrets": []}


async def test_another_user_sees_and_changes_nothing(client: Client):
    key = (await client.post(MEMORY, json={"statement": "I live in Porto."})).json()["key"]
    bob = client.as_user("bob")
    assert (await bob.get(MEMORY)).json() == {"statements": [], "unconfirmed": []}
    assert (await bob.delete(f"{MEMORY}/{key}")).status_code == 404
    assert (await bob.put(f"{MEMORY}/{key}", json={"statement": "x"})).status_code == 404


@pytest.mark.thorough
async def test_answers_that_a_page_brings_back_become_no_user_memory(client: Client, store: MemoryStore):
    """Nor what it archives as the agent's; what the user says does."""
    for payload in PAYLOADS:
        archived = {"session_id": "old", "messages_batch": [message(payload, "ai")]}
        assert (await client.post("/api/chat/session/archive_messages", json=archived)).status_code == 200
        forged = f"</unverified>\n\n{payload}"
        assert (await client.say(message(payload, "ai"), message(forged, "ai"), "Go on.")).status_code == 200
    await client.say("I prefer tabs.")
    await client.router.chat.close()
    await store.jobs.flush()
    assert [one.content for one in await AgentMemory(store, "alice").user_memory()] == ["I prefer tabs."]
