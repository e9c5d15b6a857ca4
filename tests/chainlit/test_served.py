"""Chainlit's routes over the data layer, behind its login: who may see and change what."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.errors import StoreUnavailableError
from memory_context.store.memory_store import MemoryStore
from memory_context.surfaces.chainlit import mount_elements
from memory_context.surfaces.chainlit.data_layer import byte_range

from .conftest import Feedback, MemoryDataLayer, chainlit, chat, elements, log_in

ROUTES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/project/thread/t", None),
    ("GET", "/project/thread/t/element/image", None),
    ("PUT", "/project/thread", {"threadId": "t", "name": "mine"}),
    ("PUT", "/project/thread/share", {"threadId": "t", "isShared": True}),
    ("DELETE", "/project/thread", {"threadId": "t"}),
    ("GET", "/memory-context/elements/t/image", None),
    ("GET", "/memory-context/elements/t/nothing", None),
]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
async def thread(layer: MemoryDataLayer) -> None:
    """A thread of alice with a rated message and some elements."""
    with chat("alice", "t"):
        await layer.update_thread("t", name="The harbour", user_id="alice")
        await layer.create_step(
            {"id": "m", "threadId": "t", "type": "user_message", "name": "alice", "output": "hello"}
        )
        await layer.upsert_feedback(Feedback(forId="m", value=1, id="rating"))
        for sent in (
            elements.Image(id="image", name="a.png", content=PNG, mime="image/png", for_id="m"),
            elements.File(
                id="page", name="ä\r\n.html", content="<script>alert()</script>", mime="text/html", for_id="m"
            ),
            elements.Pdf(id="pdf", name="a.pdf", content=b"%PDF", for_id="m"),
            elements.File(id="unknown", name="x", content=b"x", for_id="m"),
        ):
            await layer.create_element(sent)


async def test_thread_routes_list_read_rename_and_delete(web: httpx.AsyncClient, thread: None) -> None:
    """By its author, as the page does it."""
    await log_in(web, "alice")
    listing = {"pagination": {"first": 20}, "filter": {"search": "HELLO"}}
    page = (await web.post("/project/threads", json=listing)).json()
    assert [(one["id"], one["name"]) for one in page["data"]] == [("t", "The harbour")]
    read = (await web.get("/project/thread/t")).json()
    assert [(one["output"], one["feedback"]["value"]) for one in read["steps"]] == [("hello", 1)]
    assert (await web.get("/project/thread/t/element/image")).json() == read["elements"][0]
    assert (await web.put("/project/thread", json={"threadId": "t", "name": "Renamed"})).status_code == 200
    assert (await web.get("/project/thread/t")).json()["name"] == "Renamed"
    assert (await web.request("DELETE", "/project/thread", json={"threadId": "t"})).status_code == 200
    assert (await web.get("/project/thread/t")).status_code == 404
    assert (await web.post("/project/threads", json={"pagination": {"first": 20}, "filter": {}})).json()["data"] == []


async def test_login_creates_user_of_the_memory(web: httpx.AsyncClient, store: MemoryStore) -> None:
    """With what the application says of the user."""
    await log_in(web, "alice")
    known = await store.threads.user("alice")
    assert known is not None
    assert known.metadata == {"role": "reader"}
    told = (await web.get("/user")).json()
    assert (told["id"], told["identifier"]) == ("alice", "alice")


async def test_thread_is_unreachable_for_other_users(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None
) -> None:
    """Neither another user nor one who is not logged in; nothing has changed, and nothing of it is told."""
    before = await layer.get_thread("t")
    for user_id in (None, "bob"):
        if user_id:
            await log_in(web, user_id)
        for method, path, body in ROUTES:
            answer = await web.request(method, path, json=body)
            assert answer.status_code in (401, 404), (method, path)
            assert not any(secret in answer.text for secret in ("alice", "harbour", "PNG"))
    assert await layer.get_thread("t") == before


async def test_rating_another_users_step_is_refused(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None
) -> None:
    """Chainlit does not ask whose the message is; the rating stays as it was."""
    before = await layer.get_thread("t")
    for thread_id in ("t", None):
        rating = {"feedback": {"forId": "m", "value": 0, "threadId": thread_id, "id": "rating"}, "sessionId": "none"}
        await log_in(web, "bob")
        answer = await web.put("/feedback", json=rating)
        assert (answer.status_code, answer.json()["detail"]) == (500, "no message 'm' to rate")
        await web.request("DELETE", "/feedback", json={"feedbackId": "rating"})
        assert await layer.get_thread("t") == before
        await log_in(web, "alice")
        assert (await web.put("/feedback", json=rating)).json() == {"success": True, "feedbackId": "rating"}
        rating["feedback"]["value"] = 1  # type: ignore[index]
        assert (await web.put("/feedback", json=rating)).status_code == 200
    await web.request("DELETE", "/feedback", json={"feedbackId": "rating"})
    kept = await layer.get_thread("t")
    assert kept is not None
    assert kept["steps"][0].get("feedback") is None


async def test_login_during_outage_cannot_rate_another_users_step(
    web: httpx.AsyncClient, layer: MemoryDataLayer, store: MemoryStore, thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chainlit goes on without knowing the user; this layer knows who asked."""

    async def fail(user_id: str) -> None:
        raise StoreUnavailableError("away")

    await log_in(web, "bob")
    monkeypatch.setattr(store.threads, "user", fail)
    before = await layer.get_thread("t")
    rating = {"feedback": {"forId": "m", "value": 0, "threadId": "t"}, "sessionId": "none"}
    assert (await web.put("/feedback", json=rating)).status_code == 500
    assert await layer.get_thread("t") == before


async def test_concurrent_requests_act_for_their_own_user(web: httpx.AsyncClient, layer: MemoryDataLayer) -> None:
    """Who is logged in is known by the task of the request."""
    cookies: dict[str, dict[str, str]] = {}
    for user_id in ("alice", "bob"):
        with chat(user_id, f"of {user_id}"):
            await layer.create_step({"id": user_id, "threadId": f"of {user_id}", "type": "run"})
        await log_in(web, user_id)
        cookies[user_id] = dict(web.cookies)

    async def rate(user_id: str, step_id: str) -> int:
        header = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies[user_id].items())}
        rating = {"feedback": {"forId": step_id, "value": 1}, "sessionId": "none"}
        return (await web.put("/feedback", json=rating, headers=header)).status_code

    web.cookies.clear()
    pairs = [(user, step) for user in cookies for step in cookies] * 5
    answers = await asyncio.gather(*(rate(*pair) for pair in pairs))
    assert answers == [200 if user == step else 500 for user, step in pairs]


async def test_element_content_is_served_to_its_author(web: httpx.AsyncClient, thread: None) -> None:
    """As it came; no script in it runs with the author's rights."""
    await log_in(web, "alice")
    expected = {
        "image": ("image/png", "inline; filename*=UTF-8''a.png", True),
        "page": ("text/html; charset=utf-8", "attachment; filename*=UTF-8''%C3%A4%0D%0A.html", True),
        "pdf": ("application/pdf", "inline; filename*=UTF-8''a.pdf", False),
        "unknown": ("application/octet-stream", "attachment; filename*=UTF-8''x", True),
    }
    for element_id, (mime, disposition, is_sandboxed) in expected.items():
        answer = await web.get(f"/memory-context/elements/t/{element_id}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == mime
        assert answer.headers["content-disposition"] == disposition
        assert (answer.headers.get("content-security-policy") == "sandbox") == is_sandboxed
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await web.get("/memory-context/elements/t/image")).content == PNG


async def test_range_request_gets_its_part(web: httpx.AsyncClient, thread: None) -> None:
    """Some play nothing otherwise."""
    await log_in(web, "alice")
    answer = await web.get("/memory-context/elements/t/image", headers={"Range": "bytes=1-3"})
    assert (answer.status_code, answer.content) == (206, b"PNG")
    assert answer.headers["content-range"] == f"bytes 1-3/{len(PNG)}"


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 20))
def test_byte_range_lies_within_content(first: int, last: int, size: int) -> None:
    """Every one that is asked for; nonsense gets everything."""
    data = bytes(range(size))
    spans: dict[str, Callable[[], bytes]] = {
        f"bytes={first}-{last}": lambda: data[first : last + 1],
        f"bytes={first}-": lambda: data[first:],
        f"bytes=-{last}": lambda: data[max(size - last, 0) :],
    }
    for header, expected in spans.items():
        span = byte_range(header, size)
        assert (b"" if span is None else data[slice(*span)]) == expected()
    for nonsense in (
        None,
        "",
        "bytes=-",
        "bytes=1-2,4-5",
        "lines=1-2",
        "bytes=x-y",
        f"bytes={'9' * 5000}-",
        "bytes=٠-٠",
    ):
        assert byte_range(nonsense, size) is None


@pytest.mark.thorough
async def test_large_file_is_streamed_in_pieces(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it without the rest, and never much of it at once."""
    film = bytes(range(256)) * 9000
    with chat("alice", "t"):
        await layer.create_element(elements.Video(id="film", name="f", content=film, mime="video/mp4", for_id="m"))
    read: list[int] = []
    element_content = layer.element_content

    async def noted(*which: str, **part: Any) -> Any:
        found = await element_content(*which, **part)
        assert found is not None
        read.append(len(found.content))
        return found

    monkeypatch.setattr(layer, "element_content", noted)
    await log_in(web, "alice")
    url = "/memory-context/elements/t/film"
    assert (await web.get(url)).content == film
    assert sum(read) == len(film)
    assert max(read) <= 1 << 20
    read.clear()
    answer = await web.get(url, headers={"Range": "bytes=-300"})
    assert (answer.status_code, answer.content, sum(read)) == (206, film[-300:], 300)
    assert (await web.get(url, headers={"Range": "bytes=0-"})).status_code == 206


async def test_invalid_media_type_is_served_as_octet_stream(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None
) -> None:
    """It comes from whoever uploaded the file; nothing of it becomes another header."""
    await log_in(web, "alice")
    for mime, told in (
        ("image/png\r\nSet-Cookie: a=b", "application/octet-stream"),
        ("image/☃", "application/octet-stream"),
        ("text/plain;charset=utf-7", "text/plain; charset=utf-8"),
    ):
        with chat("alice", "t"):
            await layer.create_element(elements.File(id="x", name="x", content=b"x", mime=mime, for_id="m"))
        answer = await web.get("/memory-context/elements/t/x")
        assert (answer.status_code, answer.headers["content-type"]) == (200, told)


async def test_shared_thread_serves_its_elements(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is not shared any more, or if the application says who may see it."""

    async def may_view(thread: Any, viewer: Any) -> bool:
        return viewer is not None and viewer.identifier == "carol"

    url = "/memory-context/elements/t/image"
    await log_in(web, "alice")
    await web.put("/project/thread/share", json={"threadId": "t", "isShared": True})
    await log_in(web, "bob")
    shared = (await web.get("/project/share/t")).json()
    assert shared["elements"][0]["url"] == url
    assert (await web.get(url)).content == PNG
    await log_in(web, "alice")
    await web.put("/project/thread/share", json={"threadId": "t", "isShared": False})
    await log_in(web, "carol")
    assert (await web.get(url)).status_code == 404
    monkeypatch.setattr(chainlit.server.config.code, "on_shared_thread_view", may_view)
    assert (await web.get(url)).content == PNG
    await log_in(web, "bob")
    assert (await web.get(url)).status_code == 404


async def test_ending_chat_does_not_restore_sharing(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None
) -> None:
    """Its tab was opened while the thread was shared, and is closed after it was not any more."""
    await log_in(web, "alice")
    await web.put("/project/thread/share", json={"threadId": "t", "isShared": True})
    with chat("alice", "t") as session:
        session.thread_id_to_resume = "t"
        assert await chainlit.socket.resume_thread(session)
        kept = session.to_persistable()
        assert kept["is_shared"]
        await web.put("/project/thread/share", json={"threadId": "t", "isShared": False})
        await chainlit.socket.persist_user_session("t", kept | {"mood": "calm"})
    read = await layer.get_thread("t")
    assert read is not None
    assert (read["metadata"] or {})["mood"] == "calm"
    await log_in(web, "bob")
    assert (await web.get("/memory-context/elements/t/image")).status_code == 404
    assert (await web.get("/project/share/t")).status_code == 404


async def test_element_address_includes_root_path(
    layer: MemoryDataLayer, thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an application that is mounted in another, behind a proxy with a prefix."""
    monkeypatch.setenv("CHAINLIT_PARENT_ROOT_PATH", "/tools")
    monkeypatch.setenv("CHAINLIT_ROOT_PATH", "/chat")
    assert ((await layer.get_element("t", "image")) or {})["url"] == "/tools/chat/memory-context/elements/t/image"
    monkeypatch.delenv("CHAINLIT_PARENT_ROOT_PATH")
    monkeypatch.setenv("CHAINLIT_ROOT_PATH", "/")
    assert ((await layer.get_element("t", "image")) or {})["url"] == "/memory-context/elements/t/image"


async def test_element_route_follows_chainlit_root_path(
    web: httpx.AsyncClient, layer: MemoryDataLayer, thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `chainlit run --root-path /chat`, whose routes all begin with it."""
    monkeypatch.setenv("CHAINLIT_ROOT_PATH", "/chat")
    with monkeypatch.context() as patch:
        patch.setattr(chainlit.server.config.run, "root_path", "/chat")
        mount_elements(chainlit.server.app, layer)
    await log_in(web, "alice")
    url = ((await layer.get_element("t", "image")) or {})["url"] or ""
    assert (await web.get(url)).content == PNG


async def test_database_outage_is_an_error_on_the_page(
    web: httpx.AsyncClient, layer: MemoryDataLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may log in, and what cannot be listed or rated is an error there."""
    monkeypatch.setattr(layer, "_threads", MemoryStore("postgresql://localhost:1/nowhere").threads)
    transport = httpx.ASGITransport(app=chainlit.server.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://chat") as client:
        await log_in(client, "alice")
        listing = {"pagination": {"first": 20}, "filter": {}}
        assert (await client.post("/project/threads", json=listing)).status_code == 500
        rating = {"feedback": {"forId": "m", "value": 1, "threadId": "t"}, "sessionId": "none"}
        assert (await client.put("/feedback", json=rating)).status_code == 500
