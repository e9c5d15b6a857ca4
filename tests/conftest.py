"""A real Postgres with pgvector for every test: one server per test process, one migrated template, a copy per test."""

import asyncio
import contextlib
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memory_context.foundation.embeddings.embedder import Embedder
from memory_context.store import embedded
from memory_context.store import sql as sql_files
from memory_context.store.memory_store import MemoryStore

from .databases import Databases
from .embeddings.fakes import FakeEmbedder
from .support.processes import ForkedPython, Forks
from .support.scratch import SCRATCH, use_scratch

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
NO_TELEMETRY = REPOSITORY / "tests" / "support" / "no_telemetry"
"""Has a stand-in for the telemetry library that Chainlit imports: the library takes a second to import, and pandas."""
SHARED_SERVER_ENV = "MEMORY_CONTEXT_TEST_SERVER"
"""Folder of a running server to use instead, with `server.json`; whoever names it drops what the tests leave there."""
THOROUGH = (
    "acceptance",
    "chainlit_web",
    "connectors/web",
    "mutation",
    "samples",
    "web_chat",
    "test_benchmarks.py",
    "test_compacting_benchmark.py",
    "test_leaks.py",
    "test_long_session_benchmark.py",
    "test_longmemeval.py",
    "web/test_openapi.py",
)
"""Places of `make test-all` only, which `make test` does not even import: browsers, samples, long runs, benchmarks.

Elsewhere files and single tests have the marker `thorough`. Where pytest is given files or folders, all of it runs.
"""
STORIES = {
    "chainlit_web/test_stories.py": "test_a_large_result_opens_by_its_reference_lasts_and_is_forgotten",
    "connectors/web/test_agent.py": "test_agent_orders_in_a_shop_by_tools_and_states_alone",
    "web_chat/test_lasting.py": "test_a_reload_and_the_next_visit_show_the_conversation",
}
"""Tests there that `make test` runs: one in a real Chromium for each surface."""
LONGEST_MODULES = (
    "test_stories.py",
    "test_lasting.py",
    "test_page.py",
    "test_benchmarks.py",
    "test_demo.py",
    "test_path.py",
)
SWITCHED_OFF = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
"""Settings of a server for tests: nothing of it outlives them, and its plans do not depend on when it looked."""

with contextlib.suppress(ImportError):
    import numpy  # noqa: F401  # by a background thread it would come half imported to hypothesis, which looks into it

use_scratch()
sys.path.insert(0, str(NO_TELEMETRY))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, whose programs would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The settings of every property test. `make test` says the same of the same code; with a number of examples (100 in
# `make test-all`, thousands in a search by hand) each run tries others, except in CI.
EXAMPLES = os.environ.get("MEMORY_CONTEXT_EXAMPLES")
settings.register_profile(
    "suite",
    max_examples=int(EXAMPLES or 20),
    deadline=None,  # a slow machine is no failure
    derandomize=EXAMPLES is None or os.environ.get("MEMORY_CONTEXT_REQUIRE_ALL") == "1",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],  # examples share a database
)
settings.load_profile("suite")


gc.disable()  # until all is collected: importing and collecting make objects that stay


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests and imported modules out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than there are cores: tests wait for servers, browsers and limits two fifths of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="also run what only `make test-all` runs")
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run the files, and the tests of each, in random order"
    )
    parser.addoption("--passed-to", type=Path, metavar="FILE", help="write which tests passed")
    parser.addoption(
        "--passed-before", type=Path, metavar="FILE", help="leave out tests that FILE names; properties run again"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("passed_to")) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(file))


class PassedTests:
    """Writes the ids of tests that passed to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed, self._failed = set[str](), set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(sorted(self._passed - self._failed)), encoding="utf-8")


def _is_quick(config: pytest.Config) -> bool:
    """Return whether this is `make test`: all tests, but not the thorough ones."""
    named = {config.invocation_params.dir / one for one in config.args}
    return named <= {REPOSITORY, TESTS} and not config.getoption("thorough")


@cache
def _is_thorough(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in THOROUGH)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what only `make test-all` runs."""
    has_story = any((TESTS / story).is_relative_to(collection_path) for story in STORIES)
    return True if _is_quick(config) and _is_thorough(collection_path) and not has_story else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first, so that one worker has their browsers to itself while others do the rest."""
    if _is_quick(config):
        stories = {TESTS / place: name for place, name in STORIES.items()}
        chosen = [
            item
            for item in items
            if item.get_closest_marker("thorough") is None
            and (not _is_thorough(item.path) or stories.get(item.path) == item.name)
        ]
        config.hook.pytest_deselected(items=[*set(items).difference(chosen)])
        items[:] = chosen
    if (file := config.getoption("passed_before")) is not None:
        passed = set(json.loads(file.read_text(encoding="utf-8")))
        again = [one for one in items if one.nodeid not in passed or is_hypothesis_test(getattr(one, "obj", None))]
        config.hook.pytest_deselected(items=[*set(items).difference(again)])
        items[:] = again
    if (seed := config.getoption("shuffle")) is not None:
        chance = random.Random(seed)
        places = {item.path: chance.random() for item in items}
        items.sort(key=lambda item: (places[item.path], chance.random()))
    items.sort(key=lambda item: item.path.name not in LONGEST_MODULES)


@dataclass(frozen=True)
class Server:
    """The Postgres server of this test process."""

    folder: Path
    params: dict[str, str]

    def url(self, database: str, **others: str) -> str:
        """Return the superuser's address of a database."""
        return make_conninfo(**{**self.params, "dbname": database, **others})

    def execute(self, statement: str, database: str = "postgres", **names: str) -> list[tuple[object, ...]]:
        """Run one statement as the superuser; `{name}` in it stands for an identifier."""
        query = sql.SQL(statement).format(**{key: sql.Identifier(name) for key, name in names.items()})
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def copy(self, template: str, name: str) -> None:
        """Make a database like another; as files, which is the fastest while nothing is synced."""
        self.execute("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY", name=name, template=template)


def needs(program: str, folder: Path | None = None) -> str:
    """Return a program's path; without it the test is skipped, or fails where MEMORY_CONTEXT_REQUIRE_ALL is set."""
    path = shutil.which(program, path=str(folder) if folder else None)
    if path is None:
        end = pytest.fail if os.environ.get("MEMORY_CONTEXT_REQUIRE_ALL") else pytest.skip
        end(f"{program} is not " + ("on the PATH" if shutil.which(program, path="/usr/sbin") else "installed"))
    return path


async def migrate(url: str) -> None:
    """Make or update the schema of a database."""
    async with MemoryStore(url):
        pass


def copy_server(used: Path, folder: Path) -> None:
    """Copy the files of a stopped embedded server."""
    subprocess.run(["cp", "-a", str(used / "postgres"), str(folder)], check=True)


def database_of(url: str) -> str:
    """Return the name of an address's database."""
    return str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server of this process, which begins as a copy of `used_home`; or a shared one."""
    if shared := os.environ.get(SHARED_SERVER_ENV):
        yield Server(Path(shared), json.loads((Path(shared) / "server.json").read_text()))
        return
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir=SCRATCH))  # sockets need a short path
    copy_server(request.getfixturevalue("used_home"), folder)
    server = Server(folder, embedded.start(folder))
    for setting in SWITCHED_OFF:
        server.execute(f"ALTER SYSTEM SET {setting} = off")
    server.execute("SELECT pg_reload_conf()")
    yield server
    embedded.remove(folder)


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """The name of a database with the schema in it."""
    server.execute("CREATE DATABASE template_migrated")
    asyncio.run(migrate(server.url("template_migrated")))
    return "template_migrated"


@pytest.fixture(scope="session")
def databases(server: Server, template: str) -> Iterator[Databases]:
    """The databases that tests use one after another."""
    databases = Databases(server.execute, server.url, template)
    yield databases
    databases.close()


_numbers = count(1)


@pytest.fixture
def empty_database_url(server: Server) -> Iterator[str]:
    """The superuser's address of a database with nothing in it."""
    name = f"empty_{next(_numbers)}"
    server.execute("CREATE DATABASE {name}", name=name)
    yield server.url(name)
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)


@pytest.fixture
def database_url(server: Server, databases: Databases) -> Iterator[str]:
    """The superuser's address of a database with the schema and no rows."""
    name = databases.take()
    yield server.url(name)
    databases.give_back(name)


@dataclass(frozen=True)
class SqlCopy:
    """The SQL files as the package reads them for the length of a test."""

    folder: Path

    def add_migration(self, name: str, script: str) -> None:
        """Add a migration, or replace it."""
        (self.folder / "migrations" / f"{name}.sql").write_text(script)
        sql_files.load_migrations.cache_clear()


@pytest.fixture
def sql_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SqlCopy]:
    """A version of the package to come: its SQL files are a copy, to which a test adds."""
    shutil.copytree(sql_files.sql_folder(), tmp_path / "sql")
    monkeypatch.setattr(sql_files, "sql_folder", lambda: tmp_path / "sql")
    sql_files.load_migrations.cache_clear()
    yield SqlCopy(tmp_path / "sql")
    sql_files.load_migrations.cache_clear()


@pytest.fixture
def embedder(request: pytest.FixtureRequest) -> Embedder | None:
    """The embedder of `store`: None for the default one."""
    return FakeEmbedder() if request.node.get_closest_marker("fake_embedder") else None


@pytest.fixture
async def store(databases: Databases, database_url: str, embedder: Embedder | None) -> AsyncIterator[MemoryStore]:
    """An open store of an empty database, with the default embedder or a tiny one."""
    async with databases.store(database_of(database_url), embedder) as store:
        yield store


@pytest.fixture
def store_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that failed is not left alone."""
    monkeypatch.setattr("memory_context.foundation.runtime.background.STORE_RETRY_SECONDS", 0)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of this test alone: contexts that tests before it dropped complain of what they lost when collected."""
    gc.collect()
    return caplog


@pytest.fixture(autouse=True)
def batch_when_asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are archived when that is asked for, not a moment after them: tests count what is stored by then.

    Tests of that moment have the marker `batches_turns`.
    """
    if request.node.get_closest_marker("batches_turns") is None:
        monkeypatch.setattr("memory_context.sessions.archive.archiver._ANSWERED_SECONDS", 3600)
        monkeypatch.setattr("memory_context.sessions.archive.archiver._RESULTS_SECONDS", 3600)


@pytest.fixture
def index_when_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are indexed when that is asked for, not in the background."""
    monkeypatch.setattr("memory_context.store.jobs.Jobs.wake", lambda self, user_id: None)


@pytest.fixture(scope="session")
def used_home() -> Iterator[Path]:
    """A folder in which the embedded server was set up, with the schema, and has stopped: setting up takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="mc-used-", dir=SCRATCH))
    asyncio.run(migrate(make_conninfo(**embedded.start(folder))))
    embedded.stop(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for an embedded server of its own, chosen by MEMORY_CONTEXT_HOME."""
    folder = Path(tempfile.mkdtemp(prefix="mc-home-", dir=SCRATCH))
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(folder))
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    yield folder
    if folder.exists():
        embedded.remove(folder)


@pytest.fixture
def home(used_home: Path, new_home: Path) -> Path:
    """A folder that was used before, by somebody else."""
    copy_server(used_home, new_home)
    return new_home


StartPython = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that has imported the package and is forked for scripts."""
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
async def start_python(request: pytest.FixtureRequest) -> AsyncIterator[StartPython]:
    """Start a script in a Python of its own: `await start_python(script, NAME=value)`, streams piped.

    It is a fork with the package imported, or with `fresh=True` a new Python, which reads its own environment.
    """
    processes: list[ForkedPython | asyncio.subprocess.Process] = []

    async def start(script: str, *, fresh: bool = False, **others: str) -> ForkedPython | asyncio.subprocess.Process:
        paths = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, **others}
        if fresh:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", script, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
        else:
            process = await request.getfixturevalue("forks").start(script, environment)
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()
