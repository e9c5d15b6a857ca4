"""`export` and `import`: everything of a user as a file and back, exactly, or not at all."""

import gzip
import hashlib
import io
import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import LLMMessage

from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.utf8 import to_utf8, unescape_json
from memory_context.store.codec import canonical_json
from memory_context.store.connection import Connection
from memory_context.store.database import Database
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits
from memory_context.store.threads import ThreadElement, ThreadStep
from memory_context.store.transfer import exporter, importer
from memory_context.store.transfer.importer import TransferError
from tests.support.exports import AT, Json, item, many, written

from .conftest import Run, contents
from .lived import HOSTILE, SESSION, Lived

pytestmark = pytest.mark.thorough


def lines_of(data: bytes | Path) -> list[Json]:
    """Return the records of a file, without its header, which has the time in it, and the signature of both."""
    text = data.read_bytes() if isinstance(data, Path) else data
    lines = [json.loads(line) for line in text.splitlines()[1:]]
    return [{name: value for name, value in line.items() if name != "signature"} for line in lines]


def imported(lines: list[Json]) -> list[Json]:
    """Return records as they are after an import: what the user said, and the application, counts as imported."""
    return [
        {**line, "origin": line["origin"] if line["origin"] in ("agent", "tool") else "import"}
        if line["record"] == "item"
        else line
        for line in lines
    ]


def session_with(session_id: str, memory_key: str) -> list[Json]:
    """Return the records of a session whose archive refers to an item."""
    session = {
        "record": "session",
        "session_id": session_id,
        "agent_id": "coder",
        "title": "",
        "summary": "",
        "created_at": AT,
        "last_activity_at": AT,
        "deleted_at": None,
    }
    batch = {
        "record": "batch",
        "session_id": session_id,
        "kind": "transcript",
        "agent_id": "coder",
        "branch": "",
        "sequence": 0,
        "begins_anew": True,
        "message_count": 0,
        "memory_keys": [memory_key],
        "message_ids": [],
        "start_timestamp": AT,
        "end_timestamp": AT,
        "archived_at": AT,
        "message_batch": {"entries": []},
        "batch_sha256": hashlib.sha256(b'{"entries":[]}').hexdigest(),
    }
    return [session, batch]


async def export(store: MemoryStore, user: str = "alice", session: str | None = None) -> bytes:
    return b"".join([piece async for piece in store.admin.export_lines(user, session)])


def reading(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


# --- there and back


def test_import_restores_the_exported_rows(run: Run, full: Lived, database_url: str, tmp_path: Path):
    """All that is not derived, to the byte and the microsecond; a second import changes nothing."""
    file, again = tmp_path / "alice.jsonl", tmp_path / "again.jsonl.gz"
    status, out, err = run("export", str(file), "--user", "alice", "--url", full.url)
    assert (status, out) == (0, "")
    records = lines_of(file)
    kinds = {kind: sum(line["record"] == kind for line in records) for kind in ("item", "session", "batch", "event")}
    assert all(kinds.values()), kinds
    assert f"exported {kinds['item']} items, {kinds['session']} session" in err
    assert run("import", str(file), "--url", database_url)[0] == 0
    status, _, err = run("import", str(file), "--url", database_url)
    assert (status, err.splitlines()[0]) == (0, "imported nothing for 'alice'")
    assert run("export", str(again), "--url", database_url)[0] == 0
    assert lines_of(gzip.decompress(again.read_bytes())) == imported(records)
    before = contents(database_url)
    status, out, err = run("import", str(again), "--url", database_url)
    assert (status, out) == (0, "")
    assert f"{kinds['item']} items, {kinds['session']} session" in err
    assert " there already, or forgotten or deleted here" in err
    assert contents(database_url) == before


async def test_an_imported_session_resumes_with_the_same_view(full: Lived, store: MemoryStore):
    """Byte for byte, with another user; what its placeholders stand for is there."""

    async def view(context: MemoryContext) -> list[LLMMessage]:
        return await context.get_messages()

    async with MemoryStore(full.url) as origin:
        whole = await export(origin, session=SESSION)
        before = MemoryContext("alice", "coder", SESSION, origin)
        await store.admin.import_lines(reading(whole), "carol")
        after = MemoryContext("carol", "coder", SESSION, store)
        shown = await view(after)
        assert shown == await view(before)
        assert after.resume_report.outcome == "resumed"
        assert after.resume_report.is_complete
        assert any("[MemoryRef: " in str(message.content) for message in shown)
        for key in full.keys:
            assert await after.retrieve(key) == await before.retrieve(key)
        await store.flush_index()
        best, *_ = await after.search("bats finding 37")
        assert best.ref.key == full.keys[1]
        for context in (before, after):
            await context.close()


async def test_any_string_survives_export_and_import(store: MemoryStore):
    """In every field; halves of a pair that stand side by side stay two."""
    odd = "\x00 \x1a0000 \ud83d\ude00 \U0001f600 \udc00\ud800 \r\n\u2028\x85 ы"
    new = NewItem(
        odd,
        odd,
        1,
        key="k",
        source=odd[:20],
        agent_id="a" + odd[:9],
        session_id="s" + odd[:9],
        tags=[odd],
        related_to=[odd],
        metadata={odd: [odd, 1e16, -0.5]},
    )
    user = "u" + odd[:9]
    await store.items.insert_memories(user, [new])
    whole = await export(store, user)
    assert whole.isascii()
    await store.admin.import_lines(reading(whole), "other")
    assert (await store.items.fetch_contents("other", ["k"])) == {"k": odd}
    assert lines_of(await export(store, "other")) == imported(lines_of(whole))
    report = await store.admin.import_lines(reading(whole))
    assert (report.user_id, report.known["item"]) == (user, 1)


async def test_export_includes_messages_of_the_user_interface(store: MemoryStore):
    """In its order; a thread of another user of the same database stays that user's."""
    await store.threads.upsert_user("alice", {"name": HOSTILE})
    await store.threads.update_thread("alice", "t", name="Owls", tags=["birds"], metadata={"x": 1e16})
    for number in range(3):
        step = ThreadStep(f"s{number}", "t", {"n": number}, input=HOSTILE, output=str(number))
        await store.threads.upsert_step("alice", step, is_update=False)
    await store.threads.rate_step("alice", "s1", 1, HOSTILE)
    await store.threads.upsert_element("alice", ThreadElement("e", "t", "s1", {"mime": "x"}), bytes(range(256)))
    whole, thread = await export(store), await store.threads.thread("alice", "t")
    report = await store.admin.import_lines(reading(whole), "bob")
    assert report.stored == {"ui_user": 1, "thread": 0, "step": 0, "element": 0}
    assert report.known == {"ui_user": 0, "thread": 1, "step": 3, "element": 1}
    await store.erase_user("alice")
    report = await store.admin.import_lines(reading(whole))
    assert report.stored == {"ui_user": 1, "thread": 1, "step": 3, "element": 1}
    assert await store.threads.thread("alice", "t") == thread
    assert lines_of(await export(store)) == lines_of(whole)


def test_a_session_comes_with_the_items_it_refers_to(run: Run, full: Lived, tmp_path: Path):
    """Those of its sub-agents, too; nothing of other users or of what has no part in it."""
    file = tmp_path / "session"
    assert run("export", str(file), "--user", "alice", "--session", SESSION, "--url", full.url)[0] == 0
    keys = {line["memory_key"] for line in lines_of(file) if line["record"] == "item"}
    assert keys >= {*full.keys, full.private, full.forgotten}
    assert run("export", "--user", "alice", "--session", "none", "--url", full.url) == (
        1,
        "",
        "memory-context: nothing is stored of session 'none' of user 'alice'\n",
    )


async def test_an_item_of_another_session_comes_with_the_one_that_refers_to_it(store: MemoryStore):
    """Its placeholder would open nothing."""
    items = [item("shared", "referred to", session_id="first"), item("other", "not", session_id="first")]
    await store.admin.import_lines(reading(written([*items, *session_with("second", "shared")])))
    lines = lines_of(await export(store, session="second"))
    assert [line.get("memory_key") for line in lines if line["record"] == "item"] == ["shared"]
    assert [line["record"] for line in lines] == ["item", "session", "batch", "end"]


# --- what is there already


async def test_import_does_not_revive_forgotten_items_and_deleted_sessions(store: MemoryStore, full: Lived):
    async with MemoryStore(full.url) as origin:
        whole = await export(origin)
    await store.admin.import_lines(reading(whole))
    assert await store.conversations.delete_session("alice", SESSION)
    report = await store.admin.import_lines(reading(whole))
    assert not any(report.stored[kind] for kind in ("item", "session", "batch"))
    assert all(report.known[kind] >= least for kind, least in (("session", 1), ("batch", 1), ("item", len(full.keys))))
    assert report.different == []
    assert await store.items.fetch_contents("alice", full.keys) == {}
    assert await store.conversations.session("alice", SESSION) is None


@pytest.mark.parametrize(
    ("there", "name"),
    [
        (NewItem("something else", "", 1, key="k"), "k"),
        (NewItem("text", "", 1, "article", key="k"), "k"),
        (NewItem("text", "", 1, key="j", origin="import"), "k (its content is here as j)"),
    ],
)
async def test_import_leaves_out_a_key_with_another_content_and_names_it(store: MemoryStore, there: NewItem, name: str):
    """The row here stays; the rest of the file is imported."""
    await store.items.insert_memories("alice", [there])
    data = written([item("k", "text"), item("l", "more")])
    report = await store.admin.import_lines(reading(data))
    assert (report.different, report.stored["item"], report.known["item"]) == ([name], 1, 0)
    assert {*await store.items.select_keys("alice")} == {there.key, "l"}
    assert await store.items.fetch_contents("alice", [there.key]) == {there.key: there.content}


async def test_import_leaves_out_a_transcript_that_diverged(store: MemoryStore, full: Lived):
    """A session that only went on here is known; of one that said something else the batch here stays."""
    async with MemoryStore(full.url) as origin:
        whole = await export(origin)
    lines = lines_of(whole)[:-1]
    place = next(n for n, line in enumerate(lines) if line["record"] == "batch" and line["kind"] == "transcript")
    body = lines[place]["message_batch"] | {"other": 1}
    digest = hashlib.sha256(canonical_json(unescape_json(body)).encode()).hexdigest()
    lines[place] |= {"message_batch": body, "batch_sha256": digest}
    await store.admin.import_lines(reading(whole))
    before = lines_of(await export(store))
    report = await store.admin.import_lines(reading(written(lines)))
    assert report.different == [f"batch {SESSION} / 0 / coder"]
    assert lines_of(await export(store)) == before


async def test_an_import_that_was_broken_off_can_be_repeated(
    store: MemoryStore, full: Lived, monkeypatch: pytest.MonkeyPatch
):
    """After each of its transactions; in the end all is there once, and counted once."""
    monkeypatch.setattr(importer, "PAGE_ROWS", 2)
    async with MemoryStore(full.url) as origin:
        whole = await export(origin)
    write = Database.write
    left = 0

    async def until(self: Database, *args: Any, **kind: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreUnavailableError("gone")
        return await write(self, *args, **kind)

    monkeypatch.setattr(Database, "write", until)
    for transactions in range(1, 100):
        left = transactions
        try:
            report = await store.admin.import_lines(reading(whole))
            break
        except StoreUnavailableError:
            continue
    assert sum(report.stored.values()) > 0
    assert lines_of(await export(store)) == imported(lines_of(whole))
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.message_count > 5


# --- files that are not as they have to be

GOOD = item("k", "text")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1: this is no export"),
        (b"\xff\xfe\n", "line 1: this is no export"),
        (b"[" * 100_000, "line 1: this is no export"),
        (b'{"format":"memory-context","version":3}\n', "line 1: .*version 3 .*pip install -U memory-context"),
        (written([GOOD]).rsplit(b"{", 2)[0], "cut off after line 2"),
        (written([GOOD]).rsplit(b"{", 2)[0][:-9], "line 2: not a JSON object"),
        (written([GOOD, GOOD]).replace(b'"item": 2', b'"item": 3'), "line 4: there should be .*3.* there are .*2"),
        (written([GOOD]).replace(b'"text"', b'"taxt"'), "line 2: the content has not the hash beside it"),
        (written([item("k", "text", record="thing")]), "line 2: 'thing' is no kind of record"),
        (written([item("k\x1b[2J", "text")]), "line 2: .* is no memory key"),
        (
            written([item("k", "text", created_at="yesterday 1")]),
            "lines 2 to 2: the database refuses one: invalid input",
        ),
        (written([item("k", "text", tags=["\x00"])]), "lines 2 to 2: the database refuses one: unsupported Unicode"),
        (written([item("k", "text", summary=None)]), 'refuses one: null value in column "summary"'),
    ],
)
async def test_damaged_file_is_refused_with_its_lines(store: MemoryStore, data: bytes, said: str):
    """Nothing of the page is stored."""
    with pytest.raises(TransferError, match=said):
        await store.admin.import_lines(reading(data))
    assert await store.items.select_keys("alice") == []


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"message_batch": [{"id": "m", "text": "x", "sender": "me", "timestamp": AT}]}, "sender='me'"),
        ({"message_ids": ["n"]}, "message_ids and message_count are not those of the messages"),
        ({"kind": "transcript"}, "a stretch of a transcript is an object"),
    ],
)
async def test_a_chat_that_could_not_be_read_again_is_refused(store: MemoryStore, others: Json, said: str):
    """A session with it would fail whenever it is shown."""
    session, batch = session_with("s", "k")
    message = {"id": "m", "text": "Hello.", "sender": "user", "timestamp": AT}
    chat = {**batch, "kind": "client", "agent_id": "", "begins_anew": False, "batch_sha256": None, "memory_keys": []}
    chat |= {"message_batch": [message], "message_ids": ["m"], "message_count": 1}
    with pytest.raises(TransferError, match=f"line 3: {said}"):
        await store.admin.import_lines(reading(written([session, {**chat, **others}])))
    await store.admin.import_lines(reading(written([session, chat])), "bob")
    assert [one.text for one in await store.conversations.chat_page("bob", "s", limit=5)] == ["Hello."]


@pytest.mark.parametrize("cut", [1, 2000])
def test_a_compressed_file_that_is_cut_off_is_refused(run: Run, full: Lived, tmp_path: Path, cut: int):
    file = tmp_path / "alice.jsonl.gz"
    assert run("export", str(file), "--user", "alice", "--url", full.url)[0] == 0
    file.write_bytes(file.read_bytes()[:-cut])
    status, out, err = run("import", str(file), "--user", "x", "--url", full.url)
    assert (status, out) == (1, "")
    assert "alice.jsonl.gz is damaged or cut off" in err


# --- files and pipes


class Pipe(io.TextIOWrapper):
    """What stdin or stdout is, with the bytes behind it."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(io.BytesIO(data))


def test_an_export_goes_through_a_pipe(run: Run, full: Lived, database_url: str, monkeypatch: pytest.MonkeyPatch):
    pipe = Pipe()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", pipe)
        assert run("export", "--user", "alice", "--url", full.url)[0] == 0
    data = pipe.buffer.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stdin", Pipe(data))
    status, out, _ = run("import", "-", "--url", database_url, "--json")
    assert (status, json.loads(out)["stored"]["batch"]) == (0, sum(one["record"] == "batch" for one in lines_of(data)))
    monkeypatch.setattr(sys, "stdin", Pipe(bytes(5000)))
    assert run("import", "-")[0] == 1


def test_an_export_that_fails_leaves_the_file_that_was_there(
    run: Run, full: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C, a lost database, a full disk: nothing half is left under any name."""
    file = tmp_path / "alice"
    file.write_text("the one of yesterday")
    pieces = exporter._row

    for error, status in ((KeyboardInterrupt(), 130), (StoreUnavailableError("gone"), 1), (OSError(28, "No space"), 1)):

        def failing(table: Any, row: Any, error: BaseException = error) -> Any:
            if table.record == "batch":
                raise error
            return pieces(table, row)

        monkeypatch.setattr(exporter, "_row", failing)
        ended, out, err = run("export", str(file), "--user", "alice", "--url", full.url)
        assert (ended, out, err.count("\n")) == (status, "", 1)
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"alice": "the one of yesterday"}


def test_export_is_readable_by_its_owner_only(run: Run, full: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also while it is being written, whatever lies in the place of its part: a link is not written through."""
    file, part, others = tmp_path / "alice.jsonl.gz", tmp_path / "alice.jsonl.gz.part", tmp_path / "others"
    modes: list[int] = []
    pieces = exporter._row

    def watched(table: Any, row: Any) -> Any:
        modes.append(part.stat().st_mode & 0o777)
        return pieces(table, row)

    monkeypatch.setattr(exporter, "_row", watched)
    others.write_text("somebody else's")
    part.symlink_to(others)
    file.touch(0o644)
    before = os.umask(0)
    try:
        status, _, _ = run("export", str(file), "--user", "alice", "--url", full.url)
    finally:
        os.umask(before)
    assert status == 0
    assert {file.stat().st_mode & 0o777, *modes} == {0o600}
    assert others.read_text() == "somebody else's"


# --- size and time


async def test_memory_does_not_grow_with_the_number_of_items(
    store: MemoryStore, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither way: many items take no more than as many as fill a page."""
    monkeypatch.setattr(exporter, "PAGE_ROWS", 50)
    monkeypatch.setattr(importer, "PAGE_ROWS", 50)
    peaks: list[tuple[int, int]] = []
    for user, items in (("warm", 60), ("few", 60), ("many", 1000)):
        many(database_url, user, items)
        file = tmp_path / user

        def lines(file: Path = file) -> Iterator[bytes]:
            with file.open("rb") as opened:
                yield from opened

        tracemalloc.start()
        with file.open("wb") as out:
            async for piece in store.admin.export_lines(user):
                out.write(piece)
        exported = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        await store.admin.import_lines(lines(), f"{user} too")
        peaks.append((exported, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    _, few, most = peaks
    assert most[0] < 1.5 * few[0]
    assert most[1] < 1.5 * few[1]


async def test_fresh_import_takes_one_transaction_a_page_and_compares_nothing(
    store: MemoryStore, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Comparing reads all rows of a user who is new to the planner: only a page with left out rows is compared."""
    monkeypatch.setattr(importer, "PAGE_ROWS", 10)
    many(database_url, "alice", 50)
    data = reading(await export(store))
    for transactions in (5, 10):
        before = store._database.write_transactions
        await store.admin.import_lines(data, "bob")
        assert store._database.write_transactions - before == transactions


@pytest.mark.parametrize("character", ["\x00", "\U0001f600"], ids=ascii)
async def test_line_of_a_content_that_is_all_escapes_is_a_third_longer_than_its_bytes(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, character: str
):
    """So that the limit of a line admits any item; as JSON alone it could be ten times as long."""
    monkeypatch.setattr(exporter, "LONG_CHARACTERS", 1000)
    content = character * 10_001
    await store.items.insert_memories("alice", [NewItem(content, "", 1, key="k")])
    data = await export(store)
    assert len(data) < 1.4 * len(to_utf8(content)) + 2000
    await store.admin.import_lines(reading(data), "bob")
    assert await store.items.fetch_contents("bob", ["k"]) == {"k": content}


def test_line_over_the_limit_is_refused_before_it_is_in_memory(
    run: Run, full: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A small compressed file may hold a line of any length."""
    monkeypatch.setattr(importer, "LINE_LIMIT_BYTES", 3_000_000)
    file = tmp_path / "bomb"
    good = written([item("k", "text")]).splitlines(keepends=True)[:2]
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.writelines(good)
        out.write(b'{"record":"item","content":"')
        for _ in range(64):
            out.write(b"A" * 1_000_000)
    tracemalloc.start()
    status, out, err = run("import", str(file), "--user", "nobody-yet", "--url", full.url)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (status, out) == (1, "")
    assert "bomb: line 3: longer than 3,000,000 bytes" in err
    assert err.endswith("; pages before it are imported\n")
    assert peak < 20_000_000
    assert run("export", "--user", "nobody-yet", "--url", full.url)[0] == 1


async def test_an_export_shows_one_moment(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """What is stored, and forgotten, while it is being read is not seen."""
    monkeypatch.setattr(exporter, "PAGE_ROWS", 2)
    await store.items.insert_memories("alice", [NewItem(f"text {n}", "", 1, key=f"k{n}") for n in range(5)])
    before = lines_of(await export(store))
    async with aclosing(store.admin.export_lines("alice")) as pieces:
        taken = [await anext(pieces) for _ in range(3)]
        await store.items.insert_memories("alice", [NewItem("later", "", 1, key="later")])
        await store.items.forget_memories("alice", agent_id="", session_id="", memory_key="k4")
        taken += [piece async for piece in pieces]
    assert lines_of(b"".join(taken)) == before


async def test_each_page_of_an_export_has_its_own_deadline(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """A large export, and a slow reader of one, take longer than a batch may."""
    monkeypatch.setattr(exporter, "PAGE_ROWS", 2)
    await store.items.insert_memories("alice", [NewItem(f"text {n}", "", 1, key=f"k{n}") for n in range(5)])
    allowed: list[float] = []
    allow = Connection.allow

    def noted(self: Connection, seconds: float, **others: float) -> None:
        allowed.append(seconds)
        allow(self, seconds, **others)

    monkeypatch.setattr(Connection, "allow", noted)
    store._database.limits = StoreLimits(batch_seconds=47)  # the waits of background jobs are others
    async with aclosing(store.admin.export_lines("alice")) as pieces:
        await anext(pieces)
        before = allowed.count(47)
        rest = [piece async for piece in pieces]
    assert len(rest) == 6
    assert allowed.count(47) - before >= 2, "pages of items"
