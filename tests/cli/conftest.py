"""Databases for commands, and how a command is run."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from memory_context.surfaces.cli import execute

from ..conftest import Server
from .lived import Command, Lived, a_database, command_of, live


def contents(url: str) -> dict[str, object]:
    """Return a digest of each table, to see that nothing was written."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'memory_context'").fetchall()
        query = sql.SQL("SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM memory_context.{} AS t")
        return {name: connection.execute(query.format(sql.Identifier(name))).fetchone() for (name,) in tables}


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def full(server: Server, template: str) -> Iterator[Lived]:
    """A filled database that no test changes."""
    with a_database(server, template, "cli_full") as url:
        yield live(url)


@pytest.fixture
def lived(full: Lived) -> Lived:
    """The filled database; a module whose tests change it makes its own."""
    return full


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], lived: Lived) -> Command:
    """Runs a command line as alice."""
    return command_of(capsys, lived.url)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line as it is and returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = execute([*arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run
