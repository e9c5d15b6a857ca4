"""`doctor`: what it tries, and what it says where something is wrong."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from memory_context.store.admin import examine

from ..conftest import Server
from .conftest import Run, contents
from .lived import Lived, a_database, live

pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out the variables of this package that the tests run with."""
    for name in [name for name in os.environ if name.startswith("MEMORY_CONTEXT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def broken_url(server: Server, template: str) -> Iterator[str]:
    """A filled database that the test damages."""
    with a_database(server, template, "cli_doctor") as url:
        live(url)
        yield url


def test_doctor_finds_nothing_wrong_with_a_sound_store(run: Run, lived: Lived, monkeypatch: pytest.MonkeyPatch):
    """Nor with a variable that the library reads; and it changes nothing."""
    monkeypatch.setenv("MEMORY_CONTEXT_SECRET_KEY", "0" * 64)
    monkeypatch.setenv("MEMORY_CONTEXT_LIGHT_MODEL", "off")
    before = contents(lived.url)
    ended, out, err = run("doctor", "--url", lived.url)
    assert (ended, err) == (0, "all is well\n"), out
    assert all(line.startswith("ok ") for line in out.splitlines()), out
    for subject in ("roles", "isolation", "search path", "locks", "statements", "claims"):
        assert f"ok       {subject} " in out
    assert contents(lived.url) == before


def test_doctor_names_a_mistyped_variable_and_a_database_that_is_away(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_CONTEXT_HOEM", "/data")
    ended, out, _ = run("doctor", "--json", "--url", "postgresql://somebody:s3cret@127.0.0.1:1/none")
    findings = {one["name"]: one for one in json.loads(out)}
    assert ended == 1
    assert findings["store"]["verdict"] == "failed"
    assert "did you mean MEMORY_CONTEXT_HOME?" in findings["environment"]["text"]
    assert "s3cret" not in out


@pytest.mark.parametrize("kind", ["no folder", "name too long", "another's data"])
def test_doctor_names_a_home_that_cannot_be_used_and_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
):
    home = tmp_path / ("home" * (100 if kind == "name too long" else 1))
    if kind == "no folder":
        home.write_text("a file")
    elif kind == "another's data":
        home.mkdir()
        (home / "postgres").write_text("a file")
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(home))
    ended, out, err = run("doctor", "--json")
    (found,) = [one["text"] for one in json.loads(out) if one["verdict"] == "failed"]
    assert (ended, err) == (1, "")
    assert str(home) in found
    assert "Choose another folder with MEMORY_CONTEXT_HOME" in found


def test_doctor_warns_of_a_home_that_others_may_write_to(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(tmp_path))
    ended, out, _ = run("doctor", "--json")
    findings = {one["name"]: one for one in json.loads(out)}
    assert (ended, findings["home"]["verdict"]) == (0, "warning")
    assert f"chmod go-w '{tmp_path}'" in findings["home"]["text"]


def test_doctor_reports_an_index_that_damages_itself_and_a_schema_that_is_behind(run: Run, empty_database_url: str):
    """An empty database has no schema yet: that is a warning, since its first use makes it."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("DROP EXTENSION IF EXISTS vector CASCADE")
    ended, out, _ = run("doctor", "--json", "--url", empty_database_url)
    findings = {one["name"]: one["verdict"] for one in json.loads(out)}
    assert (findings["pgvector"], findings["schema"], ended) == ("failed", "warning", 1)


def test_doctor_finds_what_a_user_reads_of_others_and_what_was_left_behind(run: Run, broken_url: str):
    with psycopg.connect(broken_url, autocommit=True) as connection:
        connection.execute("CREATE POLICY all_rows ON memory_context.agent_memories USING (true)")
        connection.execute("ALTER TABLE memory_context.consolidations DISABLE ROW LEVEL SECURITY")
        connection.execute("ALTER FUNCTION memory_context.list_users(text, integer) RESET search_path")
        connection.execute(
            "INSERT INTO memory_context.session_claims VALUES"
            " ('alice', 'coder', 's1', gen_random_uuid(), now() - interval '1 minute', NULL, NULL)"
        )
        connection.execute("INSERT INTO memory_context.jobs (user_id, kind, is_failed) VALUES ('alice', 'learn', true)")
    ended, out, err = run("doctor", "--json", "--url", broken_url)
    findings = {one["name"]: one for one in json.loads(out)}
    assert (ended, err) == (1, "")
    wrong = {name: one["verdict"] for name, one in findings.items() if one["verdict"] != "ok"}
    assert wrong == {
        "dead letters": "warning",
        "isolation": "failed",
        "search path": "failed",
        "claims": "warning",
    }
    assert "rows of others in consolidations, agent_memories" in findings["isolation"]["text"]
    assert findings["search path"]["text"].startswith("list_users ")
    assert "learn 1" in findings["dead letters"]["text"]
    assert "1 session(s) and 0 job(s)" in findings["claims"]["text"]


def test_doctor_names_a_login_that_row_level_security_does_not_bind(run: Run, broken_url: str):
    with psycopg.connect(broken_url, autocommit=True) as connection:
        (login,) = connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname = 'memory_context_login_' || "
            "left(encode(sha256(convert_to(current_database(), 'UTF8')), 'hex'), 8)"
        ).fetchone() or ("",)
        connection.execute(sql.SQL("ALTER ROLE {} BYPASSRLS").format(sql.Identifier(login)))
        ended, out, _ = run("doctor", "--json", "--url", broken_url)
        connection.execute(sql.SQL("ALTER ROLE {} NOBYPASSRLS").format(sql.Identifier(login)))
    findings = {one["name"]: one for one in json.loads(out)}
    assert (ended, findings["roles"]["verdict"]) == (1, "failed")
    assert f'ALTER ROLE "{login}" NOSUPERUSER NOBYPASSRLS' in findings["roles"]["text"]


def test_doctor_names_what_waits_for_whom_and_what_is_slow(run: Run, lived: Lived):
    with (
        psycopg.connect(lived.url) as holder,
        psycopg.connect(lived.url, autocommit=True) as waiter,
        psycopg.connect(lived.url, autocommit=True) as slow,
    ):
        update = "UPDATE memory_context.memory_users SET pending_since = NULL WHERE user_id = 'bob'"
        holder.execute(update)
        waiter.pgconn.send_query(update.encode())
        slow.pgconn.send_query(b"SELECT pg_sleep(600)")
        ended, out, _ = run("doctor", "--json", "--url", lived.url)
        pids = [one.info.backend_pid for one in (holder, waiter, slow)]
        for one in (waiter, slow):
            one.cancel_safe()
            while one.pgconn.get_result() is not None:
                pass
    findings = {one["name"]: one for one in json.loads(out)}
    assert (ended, findings["locks"]["verdict"], findings["statements"]["verdict"]) == (0, "warning", "warning")
    assert f"process {pids[1]} waits" in findings["locks"]["text"]
    assert f"for process {pids[0]}, which is idle in transaction" in findings["locks"]["text"]
    assert f"end it: SELECT pg_cancel_backend({pids[2]})" in findings["statements"]["text"]


def test_doctor_reads_the_servers_statistics_of_statements_where_they_are(run: Run, broken_url: str):
    """The extension needs a server that loads it; a view of its form stands in for it here."""
    with psycopg.connect(broken_url, autocommit=True) as connection:
        connection.execute("SET allow_system_table_mods = on")
        connection.execute("CREATE SCHEMA stats")
        connection.execute(
            "CREATE VIEW stats.pg_stat_statements AS SELECT oid AS dbid, 40::bigint AS calls, 812.5::float8 AS"
            " mean_exec_time, 32500.0::float8 AS total_exec_time, 'SELECT slow'::text AS query FROM pg_database"
        )
        connection.execute(
            "INSERT INTO pg_extension SELECT (oid::bigint + 1000000)::oid, 'pg_stat_statements', extowner,"
            " 'stats'::regnamespace, true, '1.11' FROM pg_extension WHERE extname = 'vector'"
        )
    ended, out, _ = run("doctor", "--url", broken_url)
    assert ended == 0
    assert "warning  statements    812 ms on the average of 40 calls: 'SELECT slow'" in out


async def test_activity_is_looked_at_with_pauses(monkeypatch: pytest.MonkeyPatch):
    """Each look asks the server about all of its processes."""
    monkeypatch.setattr(examine, "_LOOKING_SECONDS", 0.2)
    monkeypatch.setattr(examine, "_LOOK_SECONDS", 0.1)
    looks = 0

    class Owner:
        async def fetch(self, query: bytes) -> list[object]:
            nonlocal looks
            looks += b"pg_blocking_pids" in query
            return []

    await examine._activity(Owner())  # type: ignore[arg-type]
    assert 1 <= looks <= 3
