"""A value that was said before it was a secret is found in what is stored, and erased there."""

import asyncio
import io
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

import psycopg
import pytest

from memory_context import AgentMemory, MemoryContext, MemoryStore, SecretError
from memory_context.memory.secret_traces import adopt_clear_secrets
from memory_context.memory.vault.secrets import SECRET_KEY_ENV, Secrets
from memory_context.store.conversation_rows import ChatMessage
from memory_context.store.threads import ThreadStep
from memory_context.surfaces.cli import execute
from tests.support.exports import item, written
from tests.support.secrets import IN_CLEAR

from .planted import LONG, VALUE, dump, messages, stands_in

pytestmark = [pytest.mark.fake_embedder, pytest.mark.thorough]


async def said(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> MemoryContext:
    """Say and store the value while it is no secret."""
    key = os.environ[SECRET_KEY_ENV]
    monkeypatch.delenv(SECRET_KEY_ENV)
    context = MemoryContext("alice", "coder", "s1", store)
    for message in messages():
        await context.add_message(message)
        await context.get_messages()
    await context.store(f"{LONG} {VALUE}", f"about {VALUE}", metadata={"note": VALUE})
    at = datetime.now(timezone.utc)
    context.archiver.add_chat([ChatMessage("m1", f"hello {VALUE}", "user", at)], context.transcript.end)
    await context.archive()
    step = ThreadStep("step", "thread", {"name": VALUE}, input=f"in {VALUE}", output="out")
    await store.threads.upsert_step("alice", step, is_update=False)
    await context.agent_memory.notes.append(f"use {VALUE}")
    await store.flush_index()
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    return context


async def test_value_said_before_is_found_and_erased(
    store: MemoryStore, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From items, archive, chat, steps, notes, index and the running context; the rest of each text stays."""
    context = await said(store, monkeypatch)
    memory = AgentMemory(store, "alice")
    await memory.secrets.set("PLANTED", VALUE)
    found = await memory.find_traces("PLANTED")
    assert len(found.items) >= 8
    assert found.sessions == ("s1",)
    assert found.others["step"] == 1
    left = await memory.erase_traces("PLANTED")
    await store.flush_index()
    assert (left.sessions, left.items, dict(left.others)) == ((), (), {})
    assert stands_in(dump(database_url)) == []
    assert stands_in(str(await context.get_messages())) == []
    assert "line 399 of a report" in dump(database_url)
    await context.archive()
    await context.close()
    assert stands_in(dump(database_url)) == []


async def test_without_traces_nothing_is_changed(store: MemoryStore, database_url: str, key: str) -> None:
    memory = AgentMemory(store, "alice")
    await memory.store("a text without it", type="custom")
    await memory.secrets.set("PLANTED", VALUE)
    await store.flush_index()
    before = dump(database_url)
    assert not await memory.find_traces("PLANTED")
    assert not await memory.erase_traces("PLANTED")
    assert dump(database_url) == before
    with pytest.raises(SecretError, match="no secret of that name"):
        await memory.find_traces("OTHER")


async def test_secrets_in_clear_are_encrypted_and_forgotten(
    store: MemoryStore, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(IN_CLEAR.encode(), ("the safe opens with 4711",))
    memory = AgentMemory(store, "alice")
    monkeypatch.delenv(SECRET_KEY_ENV)
    assert (await adopt_clear_secrets(memory)).left == ("safe_k3f7x2",)
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    assert (await adopt_clear_secrets(memory)).encrypted == ("safe_k3f7x2",)
    assert await Secrets(store, "alice").value_of("safe_k3f7x2") == "the safe opens with 4711"
    assert "opens with" not in dump(database_url)
    assert await adopt_clear_secrets(memory) == type(await adopt_clear_secrets(memory))()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    ended = execute([*arguments])
    out, err = capsys.readouterr()
    return ended, out, err


def test_commands_set_list_rotate_and_delete(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value comes from stdin and is printed nowhere."""
    where = ("--url", database_url, "--user", "alice")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{VALUE}\n"))
    said = [run(capsys, "secrets", "set", "API_TOKEN", *where)]
    assert said[0] == (0, "", "API_TOKEN is set: {{secret:API_TOKEN}} stands for it\n")
    said.append(run(capsys, "secrets", "list", *where))
    assert "API_TOKEN   yes" in said[-1][1]
    said.append(run(capsys, "secrets", "list", "--json", *where))
    assert '"has_value": true' in said[-1][1]
    said.append(run(capsys, "secrets", "rotate", "--url", database_url))
    assert said[-1] == (0, "", "0 values encrypted anew\n")
    said.append(run(capsys, "secrets", "delete", "OTHER", "--yes", *where))
    assert (said[-1][0], "there is no secret 'OTHER'" in said[-1][2]) == (1, True)
    assert run(capsys, "secrets", "delete", "API_TOKEN", "--yes", *where) == (0, "", "API_TOKEN is deleted\n")
    assert run(capsys, "secrets", "list", *where)[2] == "there are no secrets: memory-context secrets set NAME\n"
    assert not [one for one in said if VALUE in str(one)]


@pytest.mark.parametrize(
    ("stdin", "key_is", "says", "code"),
    [("", "set", "stdin is empty", 2), ("short", "set", "has 5 characters", 1), (VALUE, "", "openssl rand -base64", 1)],
)
def test_command_refuses_what_it_cannot_keep(
    database_url: str,
    key: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stdin: str,
    key_is: str,
    says: str,
    code: int,
) -> None:
    if not key_is:
        monkeypatch.delenv(SECRET_KEY_ENV)
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    ended, out, err = run(capsys, "secrets", "set", "API_TOKEN", "--url", database_url, "--user", "alice")
    assert (ended, out, says in err, err.count("\n")) == (code, "", True, 1)


def test_set_says_where_the_value_stands_and_erases_it(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_clear() -> None:
        async with MemoryStore(database_url) as store:
            await AgentMemory(store, "alice").store(f"it is {VALUE}", type="custom")

    asyncio.run(store_clear())
    where = ("--url", database_url, "--user", "alice")
    for more, says in (((), "stands in clear in 1 item\nerase it there with --erase"), (("--erase",), "it was erased")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(VALUE))
        ended, _, err = run(capsys, "secrets", "set", "API_TOKEN", *more, *where)
        assert (ended, says in err) == (0, True)
    assert stands_in(dump(database_url)) == []


def test_migrate_encrypts_secrets_in_clear(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(IN_CLEAR.encode(), ("the safe opens with 4711",))
        connection.execute(b"INSERT INTO memory_context.memory_users (user_id) VALUES ('alice')")
    monkeypatch.delenv(SECRET_KEY_ENV)
    assert "1 item of 'alice' of type user_secret in clear" in run(capsys, "migrate", "--url", database_url)[2]
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    assert "now encrypted: safe_k3f7x2" in run(capsys, "migrate", "--url", database_url)[2]
    assert "opens with" not in dump(database_url)


def test_import_encrypts_secrets_in_clear_or_leaves_them_out(
    database_url: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a key, and without the wish to erase them, the file is refused; each time the report says so."""
    file, clear = tmp_path / "alice.jsonl", "the safe opens with 4711"
    file.write_bytes(written([item("note", "harbour"), item("safe", clear, memory_type="user_secret")]))
    where = ("--url", database_url)
    monkeypatch.delenv(SECRET_KEY_ENV)
    ended, _, err = run(capsys, "import", str(file), *where)
    assert (ended, "set, and leaves it out with --erase-secrets" in err) == (1, True)
    assert "harbour" not in dump(database_url)
    ended, _, err = run(capsys, "import", str(file), "--erase-secrets", *where)
    assert (ended, "1 item of type user_secret left out" in err) == (0, True)
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    ended, _, err = run(capsys, "import", str(file), *where)
    assert (ended, "1 secret stood in clear in the file, now encrypted: safe" in err) == (0, True)
    assert "harbour" in dump(database_url)
    assert "opens with" not in dump(database_url)
    assert "safe   yes" in run(capsys, "secrets", "list", "--user", "alice", *where)[1]
