"""One address is enough for a developer, a careful administrator may give two, and no password ever shows."""

import asyncio
import traceback
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memory_context import AgentMemory
from memory_context.foundation import errors
from memory_context.store import embedded
from memory_context.store.items import NewItem
from memory_context.store.location import Location, public_url, read_url
from memory_context.store.memory_store import MemoryStore
from tests.conftest import Server, database_of

ITEM = [NewItem("content", "", 1, key="k")]
_numbers = count(1)


@pytest.fixture
def guarded_url(server: Server, template: str) -> Iterator[str]:
    """The address of an owner who is no superuser, in a database where every login needs its password."""
    name = f"guarded_{next(_numbers)}"
    rules = server.folder / "postgres" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local {name} all scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    server.execute("CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'owner-secret'", name=name)
    server.execute("GRANT memory_context_app TO {name} WITH ADMIN OPTION", name=name)
    server.execute("CREATE DATABASE {name} OWNER {name}", name=name)
    rules.write_text(f"local {name} postgres trust\nlocal {name} all scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    server.execute("CREATE EXTENSION vector", name)
    yield server.url(name, user=name, password="owner-secret")
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)
    rules.write_text(before)
    server.execute("SELECT pg_reload_conf()")


def verifier(server: Server, database: str) -> object:
    (row,) = server.execute(
        "SELECT rolpassword, rolname::text FROM pg_authid JOIN pg_database ON rolname = 'memory_context_login_' || "
        f"left(encode(sha256(convert_to(datname, 'UTF8')), 'hex'), 8) WHERE datname = '{database}'"
    )
    return row[0]


async def test_one_address_is_enough_and_leads_to_an_ordinary_login(server: Server, guarded_url: str) -> None:
    """Each process derives the same password; what works is not written again."""
    name = database_of(guarded_url)
    async with MemoryStore(guarded_url) as store:
        await store.items.insert_memories("alice", ITEM)
        (users,) = server.execute(
            f"SELECT array_agg(DISTINCT usename::text) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        assert [user[:21] for user in users[0]] == ["memory_context_login_"]  # type: ignore[union-attr]
    first = verifier(server, name)
    assert str(first).startswith("SCRAM-SHA-256$")
    async with MemoryStore(guarded_url) as store:
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}
    assert verifier(server, name) == first


async def test_a_new_password_of_the_owner_is_followed(server: Server, guarded_url: str) -> None:
    """The derived one changes with it."""
    async with MemoryStore(guarded_url) as store:
        await store.items.insert_memories("alice", ITEM)
    server.execute("ALTER ROLE {name} PASSWORD 'another'", name=database_of(guarded_url))
    async with MemoryStore(guarded_url.replace("owner-secret", "another")) as store:
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_an_owner_without_a_password_gives_a_login_without_one(server: Server, database_url: str) -> None:
    """A password derived from nothing could be guessed."""
    async with MemoryStore(database_url) as store:
        await store.items.insert_memories("alice", ITEM)
    assert verifier(server, database_of(database_url)) is None


@pytest.fixture
def app_role(server: Server, template: str) -> str:
    """An ordinary login that is a member of memory_context_app."""
    name = f"ordinary_{next(_numbers)}"
    server.execute("CREATE ROLE {name} LOGIN IN ROLE memory_context_app", name=name)
    return name


async def test_an_ordinary_login_is_used_as_it_is(server: Server, database_url: str, app_role: str) -> None:
    """No further login is made for it."""
    name = database_of(database_url)
    sessions = f"SELECT pid, usename::text FROM pg_stat_activity WHERE datname = '{name}'"
    kept = server.execute(sessions)  # of the tests, which use the database one after another
    async with MemoryStore(server.url(name, user=app_role)) as store:
        await store.items.insert_memories("alice", ITEM)
        assert {user for _, user in {*server.execute(sessions)} - {*kept}} == {app_role}


async def test_an_ordinary_login_cannot_make_the_schema_but_an_owner_beside_it_can(
    server: Server, empty_database_url: str, app_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text names the variable, and the variable helps."""
    url = server.url(database_of(empty_database_url), user=app_role)
    with pytest.raises(errors.SchemaError, match="MEMORY_CONTEXT_OWNER_URL"):
        await MemoryStore(url).open()
    monkeypatch.setenv("MEMORY_CONTEXT_OWNER_URL", empty_database_url)
    async with MemoryStore(url) as store:
        assert await store.items.insert_memories("alice", ITEM) == ["k"]
    monkeypatch.delenv("MEMORY_CONTEXT_OWNER_URL")
    async with MemoryStore(url, owner_url=empty_database_url) as store:
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_an_old_schema_needs_the_owner(server: Server, database_url: str, app_role: str) -> None:
    """An ordinary login says so instead of failing later."""
    name = database_of(database_url)
    server.execute("DELETE FROM memory_context.schema_migrations", name)
    with pytest.raises(errors.SchemaError, match=r"older than this version.*MEMORY_CONTEXT_OWNER_URL"):
        await MemoryStore(server.url(name, user=app_role)).open()


async def test_a_login_without_rights_is_told_which_it_needs(server: Server, database_url: str) -> None:
    """With the statement that gives them."""
    server.execute("CREATE ROLE {name} LOGIN", name=f"stranger_{database_of(database_url)}")
    url = server.url(database_of(database_url), user=f"stranger_{database_of(database_url)}")
    with pytest.raises(errors.SchemaError, match="GRANT memory_context_app TO"):
        await MemoryStore(url).open()


async def test_a_login_that_bypasses_row_level_security_is_refused(
    server: Server, database_url: str, app_role: str
) -> None:
    """It would see every user's rows."""
    server.execute("ALTER ROLE {name} BYPASSRLS", name=app_role)
    with pytest.raises(errors.SchemaError, match="NOBYPASSRLS"):
        await MemoryStore(server.url(database_of(database_url), user=app_role)).open()


async def check_bound_owner(url: str) -> None:
    """Two users store under the owner's login, which sees one of them at a time, or none."""
    for _ in range(2):  # a second start finds everything done
        async with MemoryStore(url) as store:
            await store.items.insert_memories("alice", ITEM)
            await store.items.insert_memories("bob", ITEM)
            await AgentMemory(store, "alice").store("The keeper of the lighthouse keeps owls.")
            await store.flush_index()
            hits = await AgentMemory(store, "alice").search("who keeps owls at the lighthouse?")
            assert "owls" in hits[0].passage
            assert [user async for user in store.every_user()] == ["alice", "bob"]
            assert (await store.admin.status()).items == 3
    with psycopg.connect(url) as connection:
        count = "SELECT count(*) FROM memory_context.agent_memories"
        assert connection.execute(count).fetchone() == (0,)
        connection.execute("SELECT memory_context.act_as('bob')")
        assert connection.execute(count).fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                "INSERT INTO memory_context.agent_sessions (user_id, agent_id, session_id) VALUES ('alice', 'a', 's')"
            )


async def test_owner_who_may_not_create_roles_is_bound_by_row_level_security(server: Server, guarded_url: str) -> None:
    """As hosts without CREATEROLE hand out a database: one login, which owns it, is enough."""
    server.execute("ALTER ROLE {name} NOCREATEROLE", name=database_of(guarded_url))
    await check_bound_owner(guarded_url)


async def test_owner_who_may_not_grant_the_group_is_bound_too(server: Server, guarded_url: str) -> None:
    """Since Postgres 16 CREATEROLE gives no rights over roles that others made."""
    server.execute("REVOKE memory_context_app FROM {name}", name=database_of(guarded_url))
    await check_bound_owner(guarded_url)


@pytest.mark.thorough
async def test_owner_without_roles_is_bound_where_pgvector_is_off_the_search_path(new_home: Path) -> None:
    """On a server on which nobody has made the group of the application's logins."""
    with psycopg.connect(make_conninfo(**embedded.start(new_home)), autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("CREATE DATABASE plain OWNER plain")
    params = embedded.start(new_home, "plain")
    with psycopg.connect(make_conninfo(**params), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA extensions")
        connection.execute("GRANT USAGE ON SCHEMA extensions TO PUBLIC")
        connection.execute("CREATE EXTENSION vector SCHEMA extensions")
        connection.execute("ALTER ROLE plain SET search_path = nowhere")
    await check_bound_owner(make_conninfo(**{**params, "user": "plain"}))


async def test_pgvector_is_found_in_any_schema(server: Server, guarded_url: str) -> None:
    """Off the search path, and where the pool's login may not use its schema before the store says so."""
    name = database_of(guarded_url)
    server.execute("DROP EXTENSION vector", name)
    server.execute("CREATE SCHEMA extensions AUTHORIZATION {name}", name, name=name)
    server.execute("CREATE EXTENSION vector SCHEMA extensions", name)
    async with MemoryStore(guarded_url) as store:
        memory = AgentMemory(store, "alice")
        ref = await memory.store("The keeper of the lighthouse keeps owls.")
        await store.flush_index()
        (hit,) = await memory.search("who keeps owls at the lighthouse?")
        assert hit.item.key == ref.key
        assert (await store.admin.status()).embeddings


async def test_schema_of_pgvector_that_logins_may_not_use_is_named(server: Server, guarded_url: str) -> None:
    name = database_of(guarded_url)
    server.execute("DROP EXTENSION vector", name)
    server.execute("CREATE SCHEMA extensions", name)
    server.execute("GRANT USAGE ON SCHEMA extensions TO {name}", name, name=name)
    server.execute("CREATE EXTENSION vector SCHEMA extensions", name)
    with pytest.raises(errors.SchemaError, match=r'GRANT USAGE ON SCHEMA "extensions" TO memory_context_app;'):
        await MemoryStore(guarded_url).open()


async def test_no_password_shows_in_any_error(server: Server, guarded_url: str) -> None:
    """Neither in a text nor in the traceback of its causes."""
    name = database_of(guarded_url)
    elsewhere = guarded_url.replace(f"host={server.params['host']}", "host=/tmp/nowhere")
    wrong = guarded_url.replace("owner-secret", "wrong-secret")
    for url in (elsewhere, wrong, guarded_url.replace(f"dbname={name}", "dbname=no_such_database")):
        store = MemoryStore(url)
        with pytest.raises(errors.StoreError) as caught:
            await store.open()
        told = "".join(traceback.format_exception(caught.value)) + repr(store) + repr(Location.in_force(url))
        assert "secret" not in told
        assert "secret" not in str(store.url_for_config)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:se@cret@host/db",
        "postgresql://user:se/cret@host/db",
        "postgresql://user:12/cret@host/db",
        "postgresql://user:cret@host:port/db",
        "postgresql://user:se%cret@host/db",
        "postgresql://user:cret@[::1/db",
        "postgres//user:cret@host/db",
        "password=cret host",
        "cret",
    ],
)
def test_a_malformed_address_is_refused_without_being_shown(url: str) -> None:
    """A forgotten percent-encoding moves parts of a password into other fields, which the driver would quote."""
    with pytest.raises(ValueError, match="percent-encoded") as caught:
        MemoryStore(url)
    assert "cret" not in "".join(traceback.format_exception(caught.value)).replace(repr(url), "")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("postgresql://u:p@host:5433/db?sslmode=require", "postgresql://u@host:5433/db?sslmode=require"),
        ("postgresql://u:se?cr#et@host/db", "postgresql://u@host/db"),
        ("postgresql://u%40tenant:p@host/db", "postgresql://u%40tenant@host/db"),
        ("host=/run/pg user=u password=p dbname=d sslpassword=p", "postgresql://u@/d?host=/run/pg"),
        ("postgresql://u:p@a:1,b:2/db", "postgresql://u@/db?host=a,b&port=1,2"),
        ("postgresql://u:p@[::1]:5433/db", "postgresql://u@[::1]:5433/db"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_an_address_without_its_secrets_still_leads_there(url: str, public: str) -> None:
    """It is the same place for the driver."""
    params = read_url(url)
    assert public_url(params) == public
    params.pop("password", None)
    params.pop("sslpassword", None)
    assert read_url(public) == params


def test_a_configuration_names_the_place_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """And finds the secret again where the environment has it."""
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    store = MemoryStore("postgresql://u:secret@host/db")
    config = store.url_for_config
    assert config == {"url": "postgresql://u@host/db", "url_env": None}
    assert MemoryStore.from_config(**config).describe() == store.describe()
    monkeypatch.setenv("MEMORY_CONTEXT_URL", "postgresql://u:secret@host/db")
    assert MemoryStore.from_config(**config) is MemoryStore.default()
    assert MemoryStore().url_for_config == {"url": None, "url_env": "MEMORY_CONTEXT_URL"}
    assert MemoryStore.from_config(url_env="MEMORY_CONTEXT_URL") is MemoryStore.default()
    monkeypatch.delenv("MEMORY_CONTEXT_URL")
    with pytest.raises(ValueError, match="MEMORY_CONTEXT_URL"):
        MemoryStore.from_config(url_env="MEMORY_CONTEXT_URL")
    assert MemoryStore().url_for_config == {"url": None, "url_env": None}


def test_the_servers_log_holds_no_password(server: Server, guarded_url: str) -> None:
    """Even if it logs every statement: only a verifier is sent."""
    server.execute("ALTER DATABASE {name} SET log_statement = 'all'", name=database_of(guarded_url))
    asyncio.run(MemoryStore(guarded_url).open())
    log = (server.folder / "postgres" / "log").read_text()
    assert 'CREATE ROLE "memory_context_login_' in log
    assert "PASSWORD 'SCRAM-SHA-256$" in log
    with psycopg.connect(guarded_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
