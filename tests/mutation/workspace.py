"""Where mutants run: a copy of the repository and a database server for each worker, a process for each mutant.

The work tree is only read. The server lives as long as the worker, since starting one takes as long as most tests;
between two mutants everything in it is dropped, and after a timeout it is made anew.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from memory_context.store import embedded
from tests.conftest import SHARED_SERVER_ENV, SWITCHED_OFF

from .mutants import Mutant
from .plugin import ARGUMENTS, ENVIRONMENT

__all__ = ["Run", "Workspace"]

_MARK_ENV = "MUTATION_WORKSPACE"
_LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".git", "out", "dist", "build", "__pycache__", "*.egg-info", ".hypothesis", ".*_cache", "node_modules"
)


@dataclass(frozen=True)
class Run:
    """How the tests ended.

    Attributes:
        outcome: passed, failed (also by a crash, or because nothing could be imported), or timed out.
        seconds: How long that took.
        failed: The first test that failed; empty if it was not one.
    """

    outcome: Literal["passed", "failed", "timed out"]
    seconds: float
    failed: str = ""


class Workspace:
    """One worker's copy and server; `close` removes them.

    Args:
        repository: What is copied.
        number: Tells workers apart.
    """

    def __init__(self, repository: Path, number: int) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix=f"mc-mutation-{number}-", dir="/tmp"))
        self._copy = self._scratch / "copy"
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = self._scratch.name
        shutil.copytree(repository, self._copy, ignore=_LEFT_OUT, symlinks=True)
        self._pytest(["--collect-only"], {}, 600)  # compiles everything

    def run(self, mutant: Mutant | None, tests: Sequence[str], limit_seconds: float) -> Run:
        """Run tests against a mutant, or against the package as it is, until one fails."""
        if mutant is None:
            return self._run(tests, limit_seconds)
        path = self._copy / mutant.module
        original = path.read_bytes()
        compiled = path.parent / "__pycache__"
        for stale in compiled.glob(f"{path.stem}.*.pyc"):  # may have the mutant's size and time
            stale.unlink()
        path.write_text(mutant.source, encoding="utf-8")
        try:
            return self._run(tests, limit_seconds)
        finally:
            path.write_bytes(original)

    def close(self) -> None:
        """End what runs, and remove everything."""
        self._kill()
        self._drop_server()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # --- a run

    def _run(self, tests: Sequence[str], limit_seconds: float) -> Run:
        home = self._server()
        choose, result = self._scratch / "choose.json", self._scratch / "result"
        choose.write_text(json.dumps(list(tests)), encoding="utf-8")
        result.unlink(missing_ok=True)
        files = list(dict.fromkeys(nodeid.partition("::")[0] for nodeid in tests))
        environment = {
            SHARED_SERVER_ENV: str(home),
            "MUTATION_CHOOSE": str(choose),
            "MUTATION_RESULT": str(result),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        started = time.monotonic()
        code = self._pytest(["-x", *files], environment, limit_seconds)
        seconds = time.monotonic() - started
        if code is None:
            self._drop_server()
            return Run("timed out", seconds)
        self._clear_server()
        failed = (result.read_text(encoding="utf-8").splitlines() if result.exists() else []) or [""]
        return Run(
            "passed" if code == 0 else "failed", seconds, failed[0] or ("" if code == 0 else f"exit code {code}")
        )

    def _pytest(self, arguments: Sequence[str], environment: dict[str, str], limit_seconds: float) -> int | None:
        """Run pytest in the copy; return its exit code, None if it took too long and was killed."""
        with (self._scratch / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *ARGUMENTS, *arguments],
                cwd=self._copy,
                env={**os.environ, **ENVIRONMENT, _MARK_ENV: self._mark, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return self._process.wait(limit_seconds)
            except subprocess.TimeoutExpired:
                self._kill()
                return None

    def _kill(self) -> None:
        """End the running tests with everything they started, in whatever session that is."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for other in psutil.process_iter():
            with suppress(psutil.Error):
                if other.environ().get(_MARK_ENV) == self._mark:
                    other.kill()

    # --- the server

    def _server(self) -> Path:
        """Return the folder of the server, started if there is none."""
        if self._home is None:
            home = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))  # sockets need a short path
            self._home = home
            params = embedded.start(home)
            (home / "server.json").write_text(json.dumps(params))
            with self._connect() as connection:
                for setting in SWITCHED_OFF:
                    connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
                connection.execute("SELECT pg_reload_conf()")
        return self._home

    def _connect(self) -> "psycopg.Connection[tuple[str]]":
        assert self._home is not None
        params = json.loads((self._home / "server.json").read_text())
        return psycopg.connect(make_conninfo(**{**params, "dbname": "postgres"}), autocommit=True, connect_timeout=10)

    def _clear_server(self) -> None:
        """Drop what the tests left behind; a server that cannot be cleared is replaced."""
        try:
            with self._connect() as connection:
                databases = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> ALL(%s)"
                for (name,) in connection.execute(databases, [["postgres", embedded.DATABASE]]).fetchall():
                    connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
                roles = "SELECT rolname FROM pg_roles WHERE rolname <> 'postgres' AND rolname !~ '^pg_'"
                for (name,) in connection.execute(roles).fetchall():
                    connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
        except (psycopg.Error, OSError):
            self._drop_server()

    def _drop_server(self) -> None:
        home, self._home = self._home, None
        if home is None:
            return
        with suppress(OSError, ValueError, psutil.Error):  # tests may have stopped its processes
            postmaster = psutil.Process(int((home / "postgres" / "postmaster.pid").read_text().split()[0]))
            for process in (postmaster, *postmaster.children()):
                process.resume()
        embedded.release(home)
        shutil.rmtree(home, ignore_errors=True)
