"""MemoryDataLayer, called as Chainlit calls it: what is kept comes back, in whatever order it came."""

import asyncio
import logging
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryCriteria
from memory_context.foundation.errors import ConflictError, ItemNotFoundError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Breaker
from memory_context.store.conversations import ChatMessage
from memory_context.store.memory_store import MemoryStore
from tests.conftest import REPOSITORY, Server, database_of
from tests.context.steps import a_turn_of_the_loop
from tests.support.outages import away
from tests.support.rows import row_counts
from tests.support.waiting import soon

from .conftest import Feedback, MemoryDataLayer, Pagination, ThreadFilter, User, chat, config, elements

NOW = "2026-01-02T03:04:05.000006Z"
ODD = "".join(map(chr, (0, 26, 0xD800, 0xDFFF, 0x1F600))) + "\r\n\\u0000 naïve %_\\"


def step(step_id: str, thread_id: str = "t", **others: Any) -> Any:
    """Return a step as Chainlit gives it."""
    return {"id": step_id, "threadId": thread_id, "type": "run", "name": "tool", "createdAt": NOW, **others}


async def page_of(layer: MemoryDataLayer, user_id: str = "alice", **others: Any) -> list[str]:
    """Return the ids of a user's threads, those used last first."""
    page = await layer.list_threads(Pagination(first=100), ThreadFilter(userId=user_id, **others))
    return [thread["id"] for thread in page.data]


async def steps_of(layer: MemoryDataLayer, thread_id: str = "t") -> list[Any]:
    """Return the steps of a thread."""
    thread = await layer.get_thread(thread_id)
    assert thread is not None
    return list(thread["steps"])


# --- users


async def test_login_keeps_user_id_and_date_and_replaces_metadata(layer: MemoryDataLayer) -> None:
    """The identifier is the memory's user id."""
    assert await layer.get_user("alice") is None
    first = await layer.create_user(User(identifier="alice", metadata={"role": "reader", ODD: [1.5, None, ODD]}))
    again = await layer.create_user(User(identifier="alice", metadata={"role": "author"}))
    assert (first.id, first.identifier) == ("alice", "alice")
    assert first.metadata == {"role": "reader", ODD: [1.5, None, ODD]}
    assert again.metadata == {"role": "author"}
    assert again.createdAt == first.createdAt
    assert await layer.get_user("alice") == again


async def test_invalid_user_identifier_is_refused(layer: MemoryDataLayer) -> None:
    """With what to use instead; Chainlit logs it and lets the user in."""
    for identifier in ("", "x" * 129, "a\x00b"):
        with pytest.raises(ValueError, match="1 to 128 printable characters"):
            await layer.create_user(User(identifier=identifier))


# --- steps


async def test_step_round_trips_unchanged(layer: MemoryDataLayer) -> None:
    """Every field of this Chainlit, and those of one that is newer."""
    given = step(
        "s",
        parentId="not there yet",
        command="search",
        modes={"model": "fast"},
        streaming=False,
        waitForAnswer=True,
        isError=False,
        metadata={"deep": [{"number": 1e16, "text": ODD}]},
        tags=["a", ODD],
        input=ODD,
        output="x" * 1_000_000,
        start=NOW,
        end=NOW,
        generation={"prompt": ODD, "tokenCount": 3},
        showInput="json",
        defaultOpen=True,
        autoCollapse=False,
        language="python",
        icon="search",
        fromTheFuture={"known": False},
    )
    with chat("alice", "t"):
        await layer.create_step(given)
    assert await steps_of(layer) == [{**given, "feedback": None}]


async def test_non_json_values_become_text(layer: MemoryDataLayer) -> None:
    """Rather than to lose the step."""
    odd = {"when": datetime(2026, 1, 1), "nan": float("nan"), 5: {"a set"}, "bytes": b"x"}
    with chat("alice", "t"):
        await layer.create_step(step("s", metadata=odd))
    (kept,) = await steps_of(layer)
    assert kept["metadata"] == {"when": "2026-01-01 00:00:00", "nan": "nan", "5": ["a set"], "bytes": "b'x'"}


async def test_step_update_wins_over_its_late_creation(layer: MemoryDataLayer) -> None:
    """What comes as new after it fills in only what it lacks."""
    for order in ("create, update", "update, create", "update, create, create"):
        begun = step(order, input="question", output="", start=NOW, end=None)
        done = step(order, output="answer", end=NOW)
        with chat("alice", "t"):
            for call in order.split(", "):
                await (layer.create_step(begun) if call == "create" else layer.update_step(done))
    for kept in await steps_of(layer):
        assert (kept["input"], kept["output"], kept["start"], kept["end"]) == ("question", "answer", NOW, NOW), kept


async def test_step_update_can_clear_a_text(layer: MemoryDataLayer) -> None:
    """And what is sent anew without an update between has its new text."""
    with chat("alice", "t"):
        await layer.create_step(step("a", output="first"))
        await layer.create_step(step("a", output="second"))
        await layer.update_step(step("b", output="some"))
        await layer.update_step(step("b", output=""))
    assert [one["output"] for one in await steps_of(layer)] == ["second", ""]


async def test_concurrent_writes_of_one_step_keep_the_last(layer: MemoryDataLayer) -> None:
    """In the order of the calls, though over several connections; other steps do not wait for them."""
    with chat("alice", "t"):
        await asyncio.gather(
            layer.create_step(step("s", output="")),
            *(layer.update_step(step("s", output=str(number))) for number in range(49)),
            *(layer.create_step(step(f"other {number}")) for number in range(20)),
        )
    kept = {one["id"]: one["output"] for one in await steps_of(layer)}
    assert kept["s"] == "48"
    assert len(kept) == 21


async def test_steps_are_ordered_by_creation(layer: MemoryDataLayer) -> None:
    """Children before their parents, or as they came if they were created together."""
    times = ["2026-01-01T00:00:00.000003Z", "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"]
    with chat("alice", "t"):
        for number, time in enumerate(times):
            await layer.create_step(step(str(number), createdAt=time, parentId="0"))
        await layer.update_step(step("1", output="changed", createdAt=times[1]))
    assert [one["id"] for one in await steps_of(layer)] == ["1", "2", "0"]


async def test_deleting_a_step_deletes_its_elements_and_rating(layer: MemoryDataLayer) -> None:
    """And deletes no other step's."""
    with chat("alice", "t"):
        for name in ("a", "b"):
            await layer.create_step(step(name))
            await layer.create_element(elements.Text(id=name, name="note", content="x", for_id=name, thread_id="t"))
            await layer.upsert_feedback(Feedback(forId=name, value=1, id=f"rating {name}"))
        await layer.delete_step("a")
        await layer.delete_step("a")
        assert not await layer.delete_feedback("rating a")
        assert await layer.delete_feedback("rating b")
    thread = await layer.get_thread("t")
    assert thread is not None
    assert [one["id"] for one in thread["steps"]] == [one["id"] for one in thread["elements"] or []] == ["b"]


async def test_nothing_is_stored_before_first_user_message(layer: MemoryDataLayer) -> None:
    """As Chainlit does it: a welcome alone is no thread; then it is kept with the rest."""
    with chat("alice", "t", has_spoken=False) as session:
        await layer.create_step(step("welcome", output="hello"))
        assert await layer.get_thread("t") is None
        session.has_first_interaction = True
        await session.flush_method_queue()
    assert [one["output"] for one in await steps_of(layer)] == ["hello"]


async def test_favorite_steps_are_listed_while_marked(layer: MemoryDataLayer) -> None:
    """The newest first; the way Chainlit marks them."""
    with chat("alice", "t"):
        for number in range(3):
            await layer.create_step(step(str(number), createdAt=f"2026-01-01T00:00:0{number}Z", output="x"))
        for number in (0, 2):
            await layer.set_step_favorite(step(str(number), metadata={"m": 1}), True)
        favorites = await layer.get_favorite_steps("alice")
        assert [one["id"] for one in favorites] == ["2", "0"]
        await layer.set_step_favorite(favorites[0], False)
        assert [one["id"] for one in await layer.get_favorite_steps("alice")] == ["0"]
    assert await layer.get_favorite_steps("bob") == []
    assert [one["output"] for one in await steps_of(layer)] == ["x", "x", "x"]


# --- threads


@pytest.mark.parametrize("given", [("name",), ("metadata",), ("name", "metadata")])
async def test_thread_name_masks_credentials(layer: MemoryDataLayer, given: tuple[str, ...]) -> None:
    """A thread is named by its first message, whichever field brings it."""
    key = "sk-" + "proj-" + "Zq7Rk2Vw9Xs4Tb6Yn1" * 3
    name = f"Use OPENAI_API_KEY={key} " + "for all calls " * 40
    fields = {"name": name, "metadata": {"name": name}}
    with chat("alice", "t"):
        await layer.update_thread("t", user_id="alice", **{one: fields[one] for one in given})
    assert (thread := await layer.get_thread("t")) is not None
    assert str(thread["name"]).startswith("Use OPENAI_API_KEY=[credential]")
    assert key[8:14] not in str(thread)


async def test_thread_metadata_is_merged_by_key(layer: MemoryDataLayer) -> None:
    """None takes one away; a name may be in them; what is not given stays; the agent's name of 1 MB is cut."""
    with chat("alice", "t"):
        await layer.update_thread("t", name="n" * 1_000_000, user_id="alice", tags=["a", ODD])
        await layer.update_thread("t", metadata={"a": ODD, "b": {"c": 1}})
        await layer.update_thread("t", metadata={"a": None, "d": True})
        await layer.update_thread("t")
    thread = await layer.get_thread("t")
    assert thread is not None
    assert thread["name"] == "n" * 255
    assert thread["metadata"] == {"b": {"c": 1}, "d": True}
    assert thread["tags"] == ["a", ODD]
    assert (thread["userId"], thread["userIdentifier"]) == ("alice", "alice")
    with chat("alice", "t"):
        await layer.update_thread("t", metadata={"name": "From the metadata"})
    assert (await layer.get_thread("t") or {})["name"] == "From the metadata"


async def test_unknown_thread_is_none(layer: MemoryDataLayer) -> None:
    """Neither does it have an author."""
    assert await layer.get_thread("t") is None
    assert await layer.get_thread_author("t") == ""
    assert await layer.get_element("t", "e") is None


async def test_thread_list_filters_by_name_words_and_rating(layer: MemoryDataLayer) -> None:
    """Whatever the case; wildcards are letters; a rating of 0 is one."""
    with chat("alice", "t"):
        await layer.update_thread("a", name="The Häfen of 100%", user_id="alice")
        await layer.create_step(step("1", "b", output=f"naïve {ODD}"))
        await layer.create_step(step("2", "c", input="path_to\\file"))
        await layer.upsert_feedback(Feedback(forId="1", value=0))
        await layer.upsert_feedback(Feedback(forId="2", value=1))
    found = {
        text: await page_of(layer, search=text)
        for text in ("HÄFEN", "100%", "%", "_", "to\\f", "NAÏVE", ODD, "nowhere", "e")
    }
    assert found == {
        "HÄFEN": ["a"],
        "100%": ["a"],
        "%": ["b", "a"],
        "_": ["c", "b"],
        "to\\f": ["c"],
        "NAÏVE": ["b"],
        ODD: ["b"],
        "nowhere": [],
        "e": ["c", "b", "a"],
    }
    assert [await page_of(layer, feedback=value) for value in (0, 1, None)] == [["b"], ["c"], ["c", "b", "a"]]
    assert await page_of(layer, search="naïve", feedback=1) == []


async def test_new_step_moves_thread_to_the_front(layer: MemoryDataLayer) -> None:
    """Not when it is renamed, nor when its chat is left."""
    with chat("alice", "t"):
        for name in ("a", "b", "c"):
            await layer.create_step(step(f"in {name}", name))
        await layer.update_thread("a", name="renamed", metadata={"left": True})
        assert await page_of(layer) == ["c", "b", "a"]
        await layer.create_step(step("again", "b"))
    assert await page_of(layer) == ["b", "c", "a"]


async def test_thread_list_requires_user_and_valid_cursor(layer: MemoryDataLayer) -> None:
    """Not the threads of all users."""
    with pytest.raises(ValueError, match=r"filters\.userId"):
        await layer.list_threads(Pagination(first=1), ThreadFilter())
    with pytest.raises(ValueError, match="endCursor"):
        await layer.list_threads(Pagination(first=1, cursor="t"), ThreadFilter(userId="alice"))


@given(
    size=st.integers(1, 4),
    acts=st.lists(st.tuples(st.sampled_from(["begin", "use", "delete"]), st.integers(0, 6)), max_size=4),
)
async def test_thread_pages_have_each_thread_once(
    store: MemoryStore, size: int, acts: Sequence[tuple[str, int]]
) -> None:
    """Whatever is begun, used or deleted between two pages: each thread that stays in its place is shown once."""
    user_id = f"user {next(_users)}"
    layer = MemoryDataLayer(store)
    shown: list[str] = []
    cursor: str | None = None
    untouched = {str(number) for number in range(7)}
    with chat(user_id, "t"):
        for number in range(7):
            await layer.create_step(step(f"s{number}", f"{user_id} {number}"))
        waiting = list(acts)
        while True:
            page = await layer.list_threads(Pagination(first=size, cursor=cursor), ThreadFilter(userId=user_id))
            shown += [thread["id"].rsplit(" ", 1)[1] for thread in page.data]
            assert len(page.data) <= size
            cursor = page.pageInfo.endCursor
            if not page.pageInfo.hasNextPage:
                break
            if waiting:
                act, number = waiting.pop()
                untouched.discard(str(number))
                if act == "delete":
                    await layer.delete_thread(f"{user_id} {number}")
                else:
                    name = f"{user_id} new{number}" if act == "begin" else f"{user_id} {number}"
                    await layer.create_step(step(f"new {act} {number}", name))
    assert len(shown) == len(set(shown))
    assert untouched <= set(shown)


_users = iter(range(1_000_000))


@given(text=st.text(st.characters()), key=st.text(st.characters(), min_size=1))
async def test_any_text_round_trips_through_data_layer(store: MemoryStore, text: str, key: str) -> None:
    """Lone surrogates and NUL included: in steps, metadata, names, tags and ratings."""
    layer = MemoryDataLayer(store)
    given = step("s", name=text, input=text, output=text, metadata={key: [text]}, tags=[text])
    with chat("alice", "t"):
        await layer.update_step(given)
        await layer.update_thread("t", name=text, metadata={key: text}, tags=[text])
        await layer.upsert_feedback(Feedback(forId="s", value=1, comment=text))
    thread = await layer.get_thread("t")
    assert thread is not None
    (kept,) = thread["steps"]
    assert {name: kept[name] for name in given} == given
    assert kept["feedback"]["comment"] == text
    assert (thread["name"], thread["metadata"][key], thread["tags"]) == (text[:255], text, [text])


# --- feedback


async def test_new_rating_of_a_step_keeps_its_id(layer: MemoryDataLayer) -> None:
    """A later one replaces it; taken back it is gone."""
    with chat("alice", "t"):
        await layer.create_step(step("s"))
        first = await layer.upsert_feedback(Feedback(forId="s", value=0, comment=ODD))
        assert (await steps_of(layer))[0]["feedback"] == {"forId": "s", "id": first, "value": 0, "comment": ODD}
        assert await layer.upsert_feedback(Feedback(forId="s", value=1)) == first
        assert (await steps_of(layer))[0]["feedback"] == {"forId": "s", "id": first, "value": 1, "comment": None}
        assert await layer.delete_feedback(first)
        assert not await layer.delete_feedback(first)
        assert (await steps_of(layer))[0]["feedback"] is None
        with pytest.raises(ItemNotFoundError, match="no message 'unknown'"):
            await layer.upsert_feedback(Feedback(forId="unknown", value=1))


async def test_rating_with_thread_id_needs_no_login(layer: MemoryDataLayer) -> None:
    """Slack's and Teams' handlers run in no chat and log nobody in."""
    with chat("alice", "t"):
        await layer.create_step(step("s"))
    await layer.upsert_feedback(Feedback(forId="s", value=1, threadId="t"))
    assert (await steps_of(layer))[0]["feedback"]["value"] == 1
    with pytest.raises(ItemNotFoundError):
        await layer.upsert_feedback(Feedback(forId="s", value=1))


# --- elements


async def test_element_round_trips_with_content(layer: MemoryDataLayer, tmp_path: Path) -> None:
    """From bytes, text, a file or another server; a custom one has its props and nothing else."""
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(range(256)))
    with chat("alice", "t"):
        sent = [
            elements.Image(id="image", name="a", content=b"\x89PNG\x00", mime="image/png", for_id="s", size="large"),
            elements.Text(id="text", name=ODD, content=f"naïve {ODD}", mime="text/plain", for_id="s", language="sql"),
            elements.File(id="file", name="b", path=str(file), for_id="s"),
            elements.Pdf(id="linked", name="c", url="https://example.org/a.pdf", page=3, for_id="s"),
            elements.Video(id="video", name="d", content=b"v", player_config={"x": [1]}, for_id="s"),
            elements.CustomElement(id="custom", name="e", props={"rows": [ODD]}, for_id="s", display="side"),
        ]
        for element in sent:
            await layer.create_element(element)
    thread = await layer.get_thread("t")
    assert thread is not None
    kept = {element["id"]: element for element in thread["elements"] or []}
    assert list(kept) == ["image", "text", "file", "linked", "video", "custom"]
    for element in sent:
        expected = element.to_dict()
        if element.id not in ("linked", "custom"):
            expected["url"] = f"/memory-context/elements/t/{element.id}"
        assert kept[element.id] == expected == await layer.get_element("t", element.id)
    shown = {name: await layer.element_content("t", name) for name in kept}
    assert {name: one.content for name, one in shown.items() if one} == {
        "image": b"\x89PNG\x00",
        "text": f"naïve {ODD}".encode("utf-8", "surrogatepass"),
        "file": bytes(range(256)),
        "video": b"v",
    }


async def test_task_list_keeps_its_last_state(layer: MemoryDataLayer) -> None:
    """It belongs to no step and is sent again whenever it changes."""
    with chat("alice", "t"):
        tasks = elements.TaskList(id="tasks")
        for status in ("Running", "Done"):
            tasks.status = status
            await tasks.preprocess_content()
            await layer.create_element(tasks)
    content = await layer.element_content("t", "tasks")
    assert content is not None
    assert b"Done" in content.content


async def test_element_sent_again_keeps_its_content(layer: MemoryDataLayer) -> None:
    """As after resuming, when it has our address and no content; another address takes its place."""
    with chat("alice", "t"):
        await layer.create_element(elements.Image(id="e", name="a", content=b"x", for_id="s"))
        url = ((await layer.get_element("t", "e")) or {})["url"]
        await layer.create_element(elements.Image(id="e", name="renamed", url=url, for_id="s2"))
        assert ((await layer.get_element("t", "e")) or {})["name"] == "renamed"
        assert await layer.element_content("t", "e") is not None
        await layer.create_element(elements.Image(id="e", name="a", url="https://example.org/x", for_id="s"))
        assert await layer.element_content("t", "e") is None
        await layer.delete_element("e", "t")
        await layer.delete_element("e")
    assert await layer.get_element("t", "e") is None


async def test_element_content_over_limit_is_not_stored(
    store: MemoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name is, and the log says so; neither is a file that is gone."""
    layer = MemoryDataLayer(store, element_limit_bytes=10)
    with chat("alice", "t"):
        await layer.create_element(elements.File(id="large", name="a", content=b"x" * 11, for_id="s"))
        await layer.create_element(elements.File(id="fits", name="a", content=b"x" * 10, for_id="s"))
        await layer.create_element(elements.File(id="gone", name="a", path=str(tmp_path / "gone"), for_id="s"))
    thread = await layer.get_thread("t")
    assert thread is not None
    assert [(one["id"], bool(one["url"])) for one in thread["elements"] or []] == [("large", False), ("fits", True)]
    assert "element large of 11 bytes is not kept" in caplog.text
    assert "the history lacks a change of element gone: " in caplog.text


# --- deleting


async def test_deleting_a_thread_deletes_its_session(
    layer: MemoryDataLayer, store: MemoryStore, server: Server, database_url: str
) -> None:
    """All agents', with items; what is still on its way to it finds no place, and deleting again is harmless."""
    with chat("alice", "t"):
        await fill(layer, store, "alice", "t")
        await fill(layer, store, "alice", "stays")
        await layer.delete_thread("t")
        await layer.delete_thread("t")
        late = elements.Text(id="late", name="x", content="x", for_id="late")
        await layer.create_step(step("late"))
        await layer.create_element(late)
        await layer.update_thread("t", metadata={"chat_profile": "x"})
    assert await layer.get_thread("t") is None
    assert await layer.get_thread_author("t") == ""
    assert await page_of(layer) == ["stays"]
    name = database_of(database_url)
    for table in ("ui_steps", "ui_elements"):
        assert server.execute(f"SELECT DISTINCT thread_id FROM memory_context.{table}", name) == [("stays",)]
    tombstone = server.execute("SELECT name, metadata FROM memory_context.ui_threads WHERE thread_id = 't'", name)
    assert tombstone == [(None, {})]
    assert await store.conversations.deleted_at("alice", "t") is not None
    assert await store.conversations.chat_page("alice", "t") == []
    assert [item.session_id for item in await store.items.select_memories("alice", MemoryCriteria())] == ["stays"]


async def test_deleting_a_session_deletes_its_thread(
    layer: MemoryDataLayer, store: MemoryStore, server: Server, database_url: str
) -> None:
    """By the command or another application; also when something is being shown in it just now."""
    for number in range(5):
        thread_id = f"t{number}"
        with chat("alice", thread_id):
            await layer.create_step(step(f"first {number}", thread_id))
            beside = elements.Text(id=f"e{number}", name="x", content="x", for_id="s")
            await asyncio.gather(
                *(layer.create_step(step(f"s{number} {n}", thread_id)) for n in range(4)),
                store.conversations.delete_session("alice", thread_id),
                layer.create_element(beside),
                *(layer.update_step(step(f"s{number} {n}", thread_id)) for n in range(4, 8)),
            )
    left = row_counts(server, database_url, "alice")
    assert (left["ui_threads"], left["ui_steps"], left["ui_elements"]) == (5, 0, 0)
    assert await page_of(layer) == []
    assert not await store.conversations.delete_session("alice", "t0")


async def test_unused_thread_is_pruned(
    layer: MemoryDataLayer, store: MemoryStore, server: Server, database_url: str
) -> None:
    """With its session, as old items are; tombstones go, and one that was used since stays."""
    with chat("alice", "t"):
        for thread_id in ("old", "deleted", "used"):
            await fill(layer, store, "alice", thread_id)
        await layer.delete_thread("deleted")
        ago = "now() - interval '2 days'"
        age = f"last_activity_at = {ago}, deleted_at = CASE WHEN deleted_at IS NOT NULL THEN {ago} END"
        for table in ("ui_threads", "agent_sessions"):
            server.execute(f"UPDATE memory_context.{table} SET {age}", database_of(database_url))
        await layer.create_step(step("again", "used"))
    report = await store.prune(timedelta(days=1), conversations=True)
    assert report.sessions == 2
    assert await page_of(layer) == ["used"]
    rows = "SELECT DISTINCT thread_id FROM memory_context.{table}"
    for table in ("ui_threads", "ui_steps", "ui_elements"):
        assert server.execute(rows, database_of(database_url), table=table) == [("used",)]
    kept = await store.prune(timedelta(seconds=1))
    assert (kept.sessions, await page_of(layer)) == (0, ["used"])


async def test_erased_user_has_no_rows_left(
    layer: MemoryDataLayer, store: MemoryStore, server: Server, database_url: str
) -> None:
    """Threads, steps, elements, ratings and the login; others keep theirs, and the user may begin anew."""
    for user_id in ("alice", "bob"):
        await layer.create_user(User(identifier=user_id))
        with chat(user_id, f"of {user_id}"):
            await fill(layer, store, user_id, f"of {user_id}")
    before = row_counts(server, database_url, "bob")
    await store.erase_user("alice")
    assert set(row_counts(server, database_url, "alice").values()) == {0}
    assert row_counts(server, database_url, "bob") == before
    assert await layer.get_thread("of alice") is None
    with chat("alice", "of alice"):
        await layer.create_step(step("s", "of alice"))
    assert await page_of(layer) == ["of alice"]


@pytest.mark.thorough
async def test_writes_during_erasure_are_erased_or_complete(
    layer: MemoryDataLayer, store: MemoryStore, server: Server, database_url: str
) -> None:
    """All at once, many times: nobody blocks anybody, and whoever has a thread is on the list of users."""
    with chat("alice", "t"):
        for number in range(8):
            await asyncio.gather(
                layer.create_step(step("s")),
                *(layer.create_step(step(f"s{number} {n}", f"t{number}{n}")) for n in range(3)),
                store.erase_user("alice"),
                layer.create_user(User(identifier="alice")),
                layer.create_element(elements.Text(id="e", name="x", content="x", for_id="s")),
            )
            left = row_counts(server, database_url, "alice")
            assert left["ui_threads"] == len(await page_of(layer))
            assert bool(left["memory_users"]) or not (left["ui_threads"] or left["ui_users"])
    await store.erase_user("alice")
    assert set(row_counts(server, database_url, "alice").values()) == {0}


async def fill(layer: MemoryDataLayer, store: MemoryStore, user_id: str, thread_id: str) -> None:
    """Show something of everything in a thread, and let its agent remember it."""
    await layer.update_thread(thread_id, name="name", user_id=user_id, metadata={"m": 1}, tags=["t"])
    await layer.create_step(step(f"s {thread_id}", thread_id, output="secret"))
    await layer.upsert_feedback(Feedback(forId=f"s {thread_id}", value=1))
    element = elements.Text(id=f"e {thread_id}", name="x", content="secret", for_id="s", thread_id=thread_id)
    await layer.create_element(element)
    now = datetime.now(timezone.utc) - timedelta(seconds=1)
    await store.conversations.append(
        SessionKey(user_id, "coder", thread_id), chat=[ChatMessage("m", "hello", "user", now)]
    )
    await AgentMemory(store, user_id, "coder", thread_id).store("the harbour")


# --- whose


async def test_thread_belongs_to_first_writer(
    layer: MemoryDataLayer, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever another user's browser sends: no write reaches it, none is an error in the chat, and nothing leaks."""
    with chat("alice", "t"):
        await fill(layer, store, "alice", "t")
    before = await layer.get_thread("t")
    with chat("bob", "t"):
        caplog.clear()
        await layer.update_thread("t", name="mine", user_id="bob", metadata={"is_shared": True})
        await layer.update_thread("t", name="mine", user_id="alice")
        await layer.create_step(step("new", output="planted"))
        await layer.update_step(step("s t", output="changed"))
        await layer.set_step_favorite(step("s t"), True)
        await layer.create_element(elements.Text(id="planted", name="x", content="x", for_id="s"))
        await layer.create_element(elements.Text(id="e t", name="x", content="changed", for_id="s"))
        await layer.delete_step("s t")
        await layer.delete_element("e t", "t")
        await layer.delete_element("e t")
        await layer.delete_thread("t")
        with pytest.raises(ItemNotFoundError):
            await layer.upsert_feedback(Feedback(forId="s t", value=0, threadId="t"))
        assert not await layer.delete_feedback(before["steps"][0]["feedback"]["id"])  # type: ignore[index]
        assert await page_of(layer, "bob") == []
        assert await layer.get_favorite_steps("bob") == []
        refused = [record.getMessage() for record in caplog.records]
    assert len(refused) == 7
    assert all("'t' is another user's, or was deleted" in text and "alice" not in text for text in refused)
    assert await layer.get_thread("t") == before
    assert await layer.get_thread_author("t") == "alice"
    content = await layer.element_content("t", "e t")
    assert content is not None
    assert content.content == b"secret"


async def test_concurrent_claims_of_a_thread_have_one_owner(store: MemoryStore) -> None:
    """Many times, with steps and names: it is whole and of one user."""
    layer = MemoryDataLayer(store)

    async def claim(user_id: str, thread_id: str) -> None:
        with chat(user_id, thread_id):
            await asyncio.gather(
                layer.update_thread(thread_id, name=user_id, user_id=user_id),
                layer.create_step(step(f"{user_id} {thread_id}", thread_id, output=user_id)),
            )

    for number in range(15):
        await asyncio.gather(*(asyncio.create_task(claim(user, f"t{number}")) for user in ("alice", "bob", "carol")))
        thread = await layer.get_thread(f"t{number}")
        assert thread is not None
        owner = await layer.get_thread_author(f"t{number}")
        assert (thread["name"], thread["userIdentifier"]) == (owner, owner)
        assert [one["output"] for one in thread["steps"]] == [owner]


async def test_step_ids_are_scoped_to_their_user(layer: MemoryDataLayer) -> None:
    """And of one user it does not move from thread to thread."""
    for user_id in ("alice", "bob"):
        with chat(user_id, f"of {user_id}"):
            await layer.create_step(step("s", f"of {user_id}", output=user_id))
            await layer.update_step(step("s", f"else of {user_id}", output="moved"))
    for user_id in ("alice", "bob"):
        assert [one["output"] for one in await steps_of(layer, f"of {user_id}")] == [user_id]
        assert await steps_of(layer, f"else of {user_id}") == []


async def test_nothing_is_stored_without_login(
    layer: MemoryDataLayer, caplog: pytest.LogCaptureFixture, server: Server, database_url: str
) -> None:
    """Rows belong to a user: said once, and a known thread's id is of no use."""
    with chat("alice", "t"):
        await layer.create_step(step("s"))
    before = await layer.get_thread("t")
    caplog.set_level(logging.WARNING)
    await layer.get_user("alice")  # whom the task worked for before counts for nothing in a chat
    with chat(None, "t"):
        await layer.update_thread("t", name="x", user_id="alice")
        await layer.create_step(step("new"))
        await layer.delete_step("s")
        await layer.delete_thread("t")
        await layer.create_step(step("s", "own"))
    assert await layer.get_thread("t") == before
    assert await layer.get_thread("own") is None
    assert [record.getMessage() for record in caplog.records] == [
        "nobody is logged in: what is shown to them is not kept"
    ]


async def test_script_names_its_user_by_get_user(layer: MemoryDataLayer) -> None:
    """By get_user; or by the thread, or the user it names. What is refused is an error there."""
    await layer.update_thread("t", name="Of a script", user_id="alice")
    await layer.create_step(step("s"))
    await layer.get_user("bob")
    for refused in (layer.create_step(step("new")), layer.update_thread("t", name="mine")):
        with pytest.raises(ConflictError, match="another user's, or was deleted"):
            await refused
    await layer.get_user("alice")
    await layer.delete_step("s")
    assert await steps_of(layer) == []


# --- outages


async def test_database_outage_does_not_reach_the_chat(caplog: pytest.LogCaptureFixture) -> None:
    """One line for all writes, which wait; a page that asks gets an error."""
    layer = MemoryDataLayer(MemoryStore("postgresql://localhost:1/nowhere"))
    with chat("alice", "t"):
        await layer.update_thread("t", name="x", user_id="alice")
        await layer.create_step(step("s"))
        await layer.update_step(step("s"))
        await layer.create_element(elements.Text(id="e", name="x", content="x", for_id="s"))
        await layer.delete_element("e", "t")
        await layer.delete_step("s")
        assert await layer.get_thread("t") is None
        assert await layer.get_favorite_steps("alice") == []
    assert len(caplog.records) == 3
    assert all("\n" not in record.getMessage() and not record.exc_info for record in caplog.records)
    for asked in (
        layer.list_threads(Pagination(first=1), ThreadFilter(userId="alice")),
        layer.get_thread_author("t"),
        layer.get_thread("t"),
        layer.get_user("alice"),
        layer.update_thread("t", name="renamed", user_id="alice"),
    ):
        with pytest.raises(StoreUnavailableError):
            await asked


async def test_changes_of_a_chat_are_written_after_an_outage(
    layer: MemoryDataLayer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In order, as the user whose chat made them, and without another change coming by."""
    caplog.set_level(logging.INFO)
    layer._flusher.breaker = Breaker(0.0)
    tried = asyncio.Event()

    async def tried_in_vain(*_: object, **__: object) -> object:
        tried.set()
        raise StoreUnavailableError("away")

    with monkeypatch.context() as outage:
        outage.setattr(layer._threads._database, "write", tried_in_vain)
        with chat("alice", "t"):
            await layer.update_thread("t", name="x", user_id="alice")
            await layer.create_step(step("s", output="first"))
        with chat("bob", "of bob"):
            await layer.create_step({**step("b"), "threadId": "of bob"})
        with chat("alice", "t"):
            await layer.update_step(step("s", output="last"))
            await layer.create_step(step("gone"))
            await layer.delete_step("gone")
            await layer.create_element(elements.Text(id="e", name="x", content="x", for_id="s"))
        tried.clear()
        await soon(tried.wait())
    await layer._flusher.flush()
    await layer.get_user("alice")
    thread = await layer.get_thread("t")
    assert thread is not None
    assert [(one["id"], one["output"]) for one in thread["steps"]] == [("s", "last")]
    assert [one["id"] for one in thread["elements"] or ()] == ["e"]
    assert await layer.get_thread_author("of bob") == "bob"
    assert [one.getMessage().partition(" waits")[0] for one in caplog.records if "history" in one.getMessage()] == [
        "writing the history of chats",
        "writing the history of chats again",
    ]


async def test_close_names_changes_that_still_wait(
    layer: MemoryDataLayer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries them once more."""
    monkeypatch.setattr(layer._threads._database, "write", away)
    with chat("alice", "t"):
        await layer.create_step(step("s"))
    await layer.close()
    assert "changes that the history lacks, since the database is away: 1" in caplog.text


async def test_close_waits_for_pending_writes(store: MemoryStore) -> None:
    """Chainlit ends the process right after; the store that was given stays open."""
    layer = MemoryDataLayer(store)
    with chat("alice", "t"):
        writing = [asyncio.create_task(layer.create_step(step(str(number)))) for number in range(20)]
        await a_turn_of_the_loop()
        await layer.close()
        assert all(task.done() for task in writing)
    assert len(await steps_of(layer)) == 20
    assert await layer.build_debug_url() == ""


def test_documented_lines_register_the_data_layer(monkeypatch: pytest.MonkeyPatch):
    """Run as they stand; Chainlit calls what it was given when it first needs it."""
    readme = (REPOSITORY / "docs" / "servers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import chainlit as cl\n.*?)```", readme, re.DOTALL)
    monkeypatch.setattr(config.code, "data_layer", None)
    exec(compile(block, "README.md", "exec"), {})
    made = config.code.data_layer
    assert made is not None
    assert isinstance(made(), MemoryDataLayer)
