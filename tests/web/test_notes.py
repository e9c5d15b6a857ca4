"""The user's long-term notes over HTTP: read, and replaced if nobody else changed them."""

import pytest

from memory_context import MemoryStore
from memory_context.memory.notes import LongTermNotes

from .conftest import Client

NOTES = "/api/chat/notes/assistant"


async def test_notes_are_read_and_replaced_by_their_etag(client: Client, store: MemoryStore):
    """Those that the agent itself reads and edits; only the user's own."""
    found = await client.get(NOTES)
    assert (found.headers["ETag"], found.json()["notes"], found.json()["updated_at"]) == ('"0"', "", None)
    written = await client.put(NOTES, json={"notes": "# Work\r\nOrders"}, headers={"If-Match": '"0"'})
    assert (written.status_code, written.headers["ETag"], written.json()["notes"]) == (200, '"1"', "# Work\nOrders")
    notes = LongTermNotes(store, "alice", "assistant")
    await notes.append("# Home")
    stale = await client.put(NOTES, json={"notes": "lost"}, headers={"If-Match": written.headers["ETag"]})
    assert (stale.status_code, stale.json()["detail"]) == (
        412,
        "the notes have version 2, not 1: read them and edit again",
    )
    emptied = await client.put(NOTES, json={"notes": ""}, headers={"If-Match": '"2"'})
    assert (emptied.json()["notes"], emptied.json()["version"]) == ("", 3)
    assert [one.operation for one in await notes.versions()] == ["delete_all_notes", "append", "overwrite", ""]
    assert (await client.as_user("bob").get(NOTES)).json()["version"] == 0


@pytest.mark.parametrize(
    ("body", "headers", "status", "says"),
    [
        ({"notes": "x"}, {}, 428, "send the ETag of the notes that you read as If-Match"),
        ({"notes": "x"}, {"If-Match": "3"}, 422, "if-match"),
        ({"notes": "x" * 32_001}, {"If-Match": '"0"'}, 422, "32,000 is the most"),
        ({"notes": "```\ncode"}, {"If-Match": '"0"'}, 422, "is not closed at its end"),
        ({"text": "x"}, {"If-Match": '"0"'}, 422, '["body","notes"]'),
    ],
)
@pytest.mark.thorough
async def test_notes_that_are_not_taken_are_answered_with_the_remedy(
    client: Client, body: dict[str, str], headers: dict[str, str], status: int, says: str
):
    answer = await client.put(NOTES, json=body, headers=headers)
    assert answer.status_code == status
    assert says in answer.text
    assert (await client.get(NOTES)).json()["version"] == 0


async def test_notes_of_an_agent_that_is_not_served_are_unknown(client: Client):
    assert (await client.get("/api/chat/notes/other")).status_code == 404
