"""The vault: values are encrypted before they reach the database, and only names come out."""

import asyncio
import builtins
import json
from typing import Any

import pytest

from memory_context import AgentMemory, MemoryStore, SecretError
from memory_context.memory.vault.secrets import SECRET_KEY_ENV, EnvironmentKeys, Secrets, current_key, seal
from memory_context.store import secret_rows
from memory_context.store.secret_rows import SecretKey
from tests.conftest import Server, database_of
from tests.support.rows import row_counts

from .conftest import made_key

VALUE = "tk-5f9a!Zq81 with a space"


def secrets_of(store: MemoryStore, user: str = "alice") -> Secrets:
    """Another process's secrets, which know nothing yet."""
    return Secrets(store, user)


async def exported(store: MemoryStore, user: str = "alice") -> bytes:
    return b"".join([piece async for piece in store.admin.export_lines(user)])


async def test_value_is_encrypted_in_the_database(
    store: MemoryStore, server: Server, database_url: str, key: str
) -> None:
    secrets = AgentMemory(store, "alice").secrets
    await secrets.set("API_TOKEN", VALUE)
    (row,) = server.execute(
        "SELECT user_secrets::text, encode(ciphertext, 'escape') FROM memory_context.user_secrets",
        database_of(database_url),
    )
    assert VALUE not in str(row)
    assert key not in str(row)
    assert [(one.name, one.has_value) for one in await secrets.names()] == [("API_TOKEN", True)]
    assert VALUE not in f"{secrets!r} {secrets.filter!r} {await secrets.names()}"
    assert await secrets_of(store).value_of("API_TOKEN") == VALUE


async def test_same_value_is_never_the_same_ciphertext(
    store: MemoryStore, server: Server, database_url: str, key: str
) -> None:
    for name in ("A", "B", "A"):
        await AgentMemory(store, "alice").secrets.set(name, VALUE)
    rows = server.execute("SELECT nonce, ciphertext FROM memory_context.user_secrets", database_of(database_url))
    assert len({bytes(nonce) for nonce, _ in rows}) == len({bytes(text) for _, text in rows}) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["user_id", "name", "ciphertext"])
async def test_moved_or_changed_ciphertext_is_refused(
    store: MemoryStore, server: Server, database_url: str, key: str, column: str
) -> None:
    """The user and the name are authenticated: a row cannot be given to another user or take another name."""
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
    changed = {
        "user_id": "'bob'",
        "name": "'OTHER'",
        "ciphertext": "set_byte(ciphertext, 0, get_byte(ciphertext, 0) # 1)",
    }
    update = f"UPDATE memory_context.user_secrets SET {column} = {changed[column]}"
    server.execute(update, database_of(database_url))
    user, name = (
        ("bob", "API_TOKEN") if column == "user_id" else ("alice", "OTHER" if column == "name" else "API_TOKEN")
    )
    with pytest.raises(SecretError, match="is not what was stored"):
        await secrets_of(store, user).value_of(name)


async def test_without_a_key_nothing_is_stored(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_KEY_ENV, raising=False)
    secrets = AgentMemory(store, "alice").secrets
    with pytest.raises(SecretError, match=r"openssl rand -base64 32.*MEMORY_CONTEXT_SECRET_KEY"):
        await secrets.set("API_TOKEN", VALUE)
    monkeypatch.setenv(SECRET_KEY_ENV, "tooshort")
    with pytest.raises(SecretError, match="key 1 in MEMORY_CONTEXT_SECRET_KEY is not 32 bytes in Base64") as raised:
        await secrets.set("API_TOKEN", VALUE)
    assert "tooshort" not in str(raised.value)
    assert await secrets.names() == []


async def test_without_cryptography_the_extra_is_named(
    store: MemoryStore, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **others: Any) -> Any:
        if name.partition(".")[0] == "cryptography":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **others)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'memory-context\[secrets\]'"):
        await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("API_TOKEN", "short77", SecretError, "has 7 characters: 8 to 8,192"),
        ("API_TOKEN", "        short77\n", SecretError, "has 7 characters"),
        ("API_TOKEN", "x" * 8193, SecretError, "has 8,193 characters"),
        ("API_TOKEN", "secret:API_TOKEN", SecretError, "a part of its reference"),
        ("API_TOKEN", "abcdefgh\ud800", SecretError, "not valid Unicode"),
        ("1st", VALUE, ValueError, "a secret's name is a letter"),
        ("a b", VALUE, ValueError, "a secret's name is a letter"),
        ("detected-1", VALUE, ValueError, "does not begin with 'detected-'"),
    ],
)
async def test_unusable_name_or_value_is_refused(
    store: MemoryStore, key: str, name: str, value: str, error: type[Exception], says: str
) -> None:
    secrets = AgentMemory(store, "alice").secrets
    with pytest.raises(error, match=says) as raised:
        await secrets.set(name, value)
    assert value.strip() not in str(raised.value) or value in "secret:API_TOKEN"
    assert await secrets.names() == []


async def test_rotation_replaces_the_key_while_values_are_used(
    store: MemoryStore, server: Server, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is set meanwhile stays; with the new key alone all are read."""
    secrets, new = AgentMemory(store, "alice").secrets, made_key()
    monkeypatch.setattr(secret_rows, "_PAGE_ROWS", 4)
    first = current_key(EnvironmentKeys())
    await store.secret_rows.upsert("alice", [seal(first, "alice", f"N{n}", f"{VALUE} {n}") for n in range(9)])
    await secrets.keep_detected({"detected-1": "pw"}, "s", 30)
    monkeypatch.setenv(SECRET_KEY_ENV, f"{new},{key}")
    rotated, _, read = await asyncio.gather(
        secrets.rotate(), secrets.set("N7", "another value"), secrets_of(store).value_of("N5")
    )
    assert (rotated.rotated in (9, 10), rotated.unreadable, read) == (True, (), f"{VALUE} 5")
    monkeypatch.setenv(SECRET_KEY_ENV, new)
    values = [await secrets_of(store).value_of(name) for name in ("N7", "N8", "detected-1")]
    assert values == ["another value", f"{VALUE} 8", "pw"]
    keys = server.execute("SELECT count(DISTINCT key_id) FROM memory_context.user_secrets", database_of(database_url))
    assert keys == [(1,)]


async def test_value_of_a_lost_key_is_reported_and_others_work(
    store: MemoryStore, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await AgentMemory(store, "alice").secrets.set("OLD", VALUE)
    monkeypatch.setenv(SECRET_KEY_ENV, made_key())
    secrets = secrets_of(store)
    await secrets.set("NEW", "another value")
    assert (await secrets.rotate()).unreadable == ("OLD",)
    with pytest.raises(SecretError, match=r"was encrypted with key .* which is not there"):
        await secrets.value_of("OLD")
    fresh = secrets_of(store)
    assert await fresh.ready(30)
    assert fresh.filter.finds("another value")
    assert "until then it is not hidden" in caplog.text


async def test_key_provider_of_the_application_is_used(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET_KEY_ENV, raising=False)

    class Kms:
        def keys(self) -> list[SecretKey]:
            return [SecretKey("kms-7", bytes(32))]

    async with MemoryStore(database_url, secret_keys=Kms()) as store:
        await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
        sealed = await store.secret_rows.fetch("alice", "API_TOKEN")
        assert sealed is not None
        assert sealed.key_id == "kms-7"
        assert "material" not in repr(Kms().keys()[0])


async def test_failing_key_provider_stops_no_agent(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Kms:
        def keys(self) -> list[SecretKey]:
            raise OSError("the key service is away")

    async with MemoryStore(database_url, secret_keys=Kms()) as store:
        memory = AgentMemory(store, "alice")
        await memory.store("tea", type="custom")
        assert not memory.secrets.has_keys
        assert caplog.text.count("the key service is away") == 1


async def test_names_travel_and_values_do_not(store: MemoryStore, key: str) -> None:
    """An import elsewhere has the names without values, which can be set there."""
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
    file = await exported(store)
    records = [json.loads(line) for line in file.splitlines()]
    (secret,) = [one for one in records if one.get("record") == "secret"]
    assert secret.keys() == {"record", "name", "session_id", "created_at", "updated_at"}
    report = await store.admin.import_lines(file.splitlines(keepends=True), "bob")
    assert report.stored["secret"] == 1
    bobs = AgentMemory(store, "bob").secrets
    assert [(one.name, one.has_value) for one in await bobs.names()] == [("API_TOKEN", False)]
    with pytest.raises(SecretError, match="no secret of that name has a value"):
        await bobs.value_of("API_TOKEN")
    await bobs.set("API_TOKEN", "value of bob")
    assert await secrets_of(store, "bob").value_of("API_TOKEN") == "value of bob"


async def test_import_refuses_a_name_that_is_none(store: MemoryStore, key: str) -> None:
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
    file = (await exported(store)).replace(b'"API_TOKEN"', b'"not a\\nname"')
    with pytest.raises(Exception, match=r"lines 2 to 2: the database refuses one: .*user_secrets_name_formed"):
        await store.admin.import_lines(file.splitlines(keepends=True), "bob")


async def test_secrets_of_one_user_are_nobody_elses(store: MemoryStore, key: str) -> None:
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
    bobs = AgentMemory(store, "bob").secrets
    assert await bobs.names() == []
    assert await bobs.ready(30)
    assert not bobs.filter.finds(VALUE)
    with pytest.raises(SecretError):
        await bobs.value_of("API_TOKEN")


async def test_erasing_a_user_takes_the_secrets(
    store: MemoryStore, server: Server, database_url: str, key: str
) -> None:
    await AgentMemory(store, "alice").secrets.set("API_TOKEN", VALUE)
    await store.erase_user("alice")
    assert set(row_counts(server, database_url, "alice").values()) == {0}


async def test_deleted_secret_is_gone(store: MemoryStore, key: str) -> None:
    secrets = AgentMemory(store, "alice").secrets
    await secrets.set("API_TOKEN", VALUE)
    assert await secrets.delete("API_TOKEN")
    assert not await secrets.delete("API_TOKEN")
    assert not secrets.filter.finds(VALUE)
    assert await secrets.names() == []
